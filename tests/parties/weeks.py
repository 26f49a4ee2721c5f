"""Weeks in the life of a federation of processes: new rows, requests, an absence and a restart.

Each week 3 % of the rows are new, and the training goes on from the newest version with them. Then
one to three parties request that some rows are forgotten; one passive party is away when the others
start the service, and another party is killed and started again while the requests run.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from time import sleep

from plain_search import patterns_of, search
from request_federation import RequestFederation

from parties.requests.lifecycle import RequestState
from parties.vertical.kept_model import kept_rows, party_models
from unlearning.receipts.faults import ExitCode
from unlearning.receipts.keys import TrustedKey, TrustFile
from unlearning.receipts.verify import verify

GROWTH = 0.03  # new rows of a week, as a fraction of the rows of the first week
SMALL, LARGE = 2, 6  # rows of a request
AWAY = 2.0  # seconds for which a party is away
SECONDS = 1800.0  # longest time of a training, and of a week's requests

# Returns the federation whose parties hold this fraction of their rows.
Build = Callable[[float], RequestFederation]


@dataclass
class Life:
    """What happened in some weeks.

    Attributes:
        accuracy: accuracy on test rows of the last version.
        retrain: accuracy on the same rows of a training from the beginning on the final rows.
        requests: number of requests.
        certified: number of requests whose receipt is the same at all parties, and verifies.
        forgotten: number of forgotten rows.
        returned: number of forgotten rows that a later version knew.
        found: places in which a search without the project's code finds forgotten rows.
    """

    accuracy: float = 0.0
    retrain: float = 0.0
    requests: int = 0
    certified: int = 0
    forgotten: int = 0
    returned: int = 0
    found: list[str] = field(default_factory=list)


class Weeks:
    """One life of a federation, week by week."""

    def __init__(self, build: Build, first: float, seed: int) -> None:
        """Begin with the fraction ``first`` of the rows; ``seed`` draws what happens."""
        self._build, self._first, self._random = build, first, Random(seed)
        self._gone = set[bytes]()  # IDs of the forgotten rows
        self._returned = set[bytes]()  # those that a later version knew
        self.life = Life()

    def live(self, weeks: int, report: Callable[[str], None]) -> Life:
        """Live for some weeks, then train again on the rows that are left, and search."""
        federation = self._build(self._first)
        out = federation.folder / "life"
        shutil.rmtree(out, ignore_errors=True)
        federation.train(out, SECONDS)
        for week in range(1, weeks + 1):
            federation = self._build(round(self._first * (1 + GROWTH * week), 6))
            federation.train(out, SECONDS, ("--from", "newest"))
            self._count_returned(federation)
            requests = self._ask(federation)
            self._carry_out(federation, requests)
            self.life.accuracy = self._accuracy(federation, requests[-1])
            report(f"week {week} of {weeks}: {len(requests)} requests, "
                   f"test accuracy {self.life.accuracy:.4f}")  # fmt: skip
        again = federation.folder / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(out, again)
        self.life.retrain = federation.train(again, SECONDS)["run"]["test_accuracy"]
        self.life.forgotten = len(self._gone)
        self._count_returned(federation)
        patterns = {
            f"{form} of {person.decode()}": pattern
            for person in sorted(self._gone)
            for form, pattern in patterns_of(person.decode(), [person.decode()]).items()
        }
        self.life.found = search(out, patterns) + search(again, patterns)
        return self.life

    def _known(self, federation: RequestFederation, name: str) -> dict[bytes, int]:
        out = federation.folder / "life"
        return kept_rows(party_models(federation.party(name, out)))

    def _count_returned(self, federation: RequestFederation) -> None:
        for name in federation.roles:
            self._returned |= self._gone & self._known(federation, name).keys()
        self.life.returned = len(self._returned)

    def _ask(self, federation: RequestFederation) -> list[str]:
        """Raise one to three requests for rows whose IDs are not part of longer IDs."""
        out, names = federation.folder / "life", list(federation.roles)
        known = self._known(federation, federation.hub)
        longest = max(map(len, known))
        left = sorted(each for each in known if len(each) == longest)
        requests = []
        for _ in range(self._random.randint(1, 3)):
            chosen = self._random.sample(left, self._random.randint(SMALL, LARGE))
            left = [each for each in left if each not in chosen]
            origin = self._random.choice(names)
            requests.append(federation.request(origin, out, [known[each] for each in chosen]))
            self._gone |= set(chosen)
        self.life.requests += len(requests)
        return requests

    def _carry_out(self, federation: RequestFederation, requests: list[str]) -> None:
        out = federation.folder / "life"
        passive = [name for name in federation.roles if name != federation.hub]
        away = self._random.choice(passive)
        with federation.serve(out) as service:
            service.kill(away)
            sleep(AWAY)
            service.start(away)
            sleep(self._random.uniform(0.0, AWAY))
            killed = self._random.choice([name for name in federation.roles if name != away])
            joins = federation.joins(killed, out)
            service.kill(killed)
            service.start(killed)
            for each in requests:
                federation.wait_certified(service, each, SECONDS)
            federation.wait_joined(killed, out, joins + 1, SECONDS)  # it handles SIGTERM by now
            codes = service.stop()
        assert not any(codes.values()), f"{codes}: {federation.notes(out)}"
        self.life.certified += sum(_verifies(federation, each) for each in requests)

    def _accuracy(self, federation: RequestFederation, request: str) -> float:
        """The accuracy on test rows after a request, as its audit has it."""
        out = federation.folder / "life"
        assert federation.view(federation.hub, out, request).state is RequestState.CERTIFIED
        return float(federation.figures(out, request)["test_after"])


def _verifies(federation: RequestFederation, request: str) -> bool:
    """Whether every party has the same receipt of a request, and it verifies."""
    out = federation.folder / "life"
    found = [path.read_bytes() for path in federation.receipts(out, request).values()]
    with federation.desk(federation.hub, out) as desk:
        keys = [TrustedKey(party=n, public_key=key) for n, key in desk.keys.known.items()]
    trust = TrustFile(federation=federation.name, keys=tuple(keys))
    valid = [verify(each, trust).exit_code is ExitCode.VALID for each in found]
    return len(found) == len(federation.roles) and len(set(found)) == 1 and all(valid)
