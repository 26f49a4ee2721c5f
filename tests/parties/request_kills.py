"""A request's life with one SIGKILL, at every boundary of every party, compared with a quiet life.

A life begins when the parties start to serve, with a request that one of them has recorded, and
ends when every party has the receipt. All lives start from copies of the same folders.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from signal import SIGKILL
from time import monotonic, sleep
from typing import Self, TypeAlias

from corrections import submit_correction
from plain_search import search_persons
from request_federation import RequestFederation, Service, write_trio
from watched_party import Watch

from parties.requests.events import EventKind, StatedBody
from parties.requests.lifecycle import RequestState
from parties.requests.receipts import TRUST
from parties.vertical.kept_model import kept_rows, party_models
from unlearning.receipts.faults import ExitCode
from unlearning.receipts.keys import TrustedKey, TrustFile
from unlearning.receipts.verify import verify

ROWS = (3, 5, 8, 21, 40)  # of the common order
ONCE = (EventKind.STARTED, EventKind.VERIFIED, EventKind.COMPLETED)
LIMIT = 180.0  # seconds of a life


Kill: TypeAlias = tuple[str, int]  # a party, and the number of a boundary, from 1


@dataclass(frozen=True)
class KilledLife:
    """The outcome of a life.

    Attributes:
        kills: the parties that were killed, and the number of the boundary of each, from 1.
        names: what each of the parties was about to do, or had done.
        seconds: duration from the last restart to the receipts.
        failures: what was wrong; none if the life ended as the quiet one.
    """

    kills: tuple[Kill, ...]
    names: tuple[str, ...]
    seconds: float
    failures: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Self:
        """The outcome of its line in the record."""
        content = json.loads(line)
        kills = tuple((name, at) for name, at in content["kills"])
        return cls(kills, tuple(content["names"]), content["seconds"], tuple(content["failures"]))


class RequestKills:
    """The lives of one request; finished ones are remembered in ``folder``.

    Attributes:
        federation: the parties.
        request: ID of the request.
        trained: folder of the runs before each life.
        quiet: folder of the runs after the quiet life.
        persons: the persons to be forgotten: by ID, their features at each party.
        names: for each party, the names of the boundaries of the quiet life.
        finished: the outcomes so far.
    """

    def __init__(self, folder: Path, *, corrects: bool = False) -> None:
        """Open the lives in ``folder``; ``corrects``: the request replaces labels."""
        self._folder, self._corrects = folder, corrects
        self.trained, self.quiet = folder / "trained", folder / "quiet"
        self._record = folder / "lives.jsonl"
        if not (folder / "quiet.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            self.federation = self._open(folder)
            self._live_quietly()
        self.federation = self._open(folder)
        quiet = json.loads((folder / "quiet.json").read_text())
        self.request: str = quiet["request"]
        self._digests: dict[str, str] = quiet["digests"]
        self.persons: dict[str, list[list[str]]] = quiet["persons"]
        self.names: dict[str, list[str]] = quiet["names"]
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        self.finished = [KilledLife.read(line) for line in lines]

    def single(self) -> list[tuple[Kill, ...]]:
        """One kill at each boundary, in an order of which each beginning has kills everywhere."""
        every = [(name, at + 1) for name, names in self.names.items() for at in range(len(names))]
        return [(every[each],) for each in spread_numbers(len(every))]

    def pairs(self, count: int) -> list[tuple[Kill, ...]]:
        """A kill of each of two parties, at random boundaries, ``count`` times."""
        random, found = Random(0), []
        for _ in range(count):
            chosen = random.sample(sorted(self.names), 2)
            found.append(tuple((name, random.randint(1, len(self.names[name]))) for name in chosen))
        return found

    def run(self, lives: Sequence[tuple[Kill, ...]]) -> Iterator[KilledLife]:
        """Live with the kills of each of ``lives`` that is not finished; yield the outcomes."""
        done = {each.kills for each in self.finished}
        for kills in lives:
            if kills not in done:
                outcome = self._live(kills)
                with self._record.open("a") as record:
                    record.write(json.dumps(asdict(outcome)) + "\n")
                self.finished.append(outcome)
                yield outcome

    # --- lives -----------------------------------------------------------------------------------

    def _live_quietly(self) -> None:
        self.federation.train(self.trained)
        if self._corrects:
            self._live_with(self._correct(), {})
            return
        persons = self._subjects()
        found = search_persons(self.trained, persons)
        assert len(found) >= len(persons), f"the search finds nothing before the request: {found}"
        self._live_with(self.federation.request("right", self.trained, ROWS), persons)

    def _correct(self) -> str:
        """Request other labels for ``ROWS``; return the ID of the request."""
        hub = self.federation.hub
        with self.federation.local(hub, self.trained) as local:
            now, place = local.kept_labels(), local.kept_rows()
            wanted = {
                row: "abc"["bca".index(now[each])] for each, row in place.items() if row in ROWS
            }
            return submit_correction(local.party, local.desk, wanted)

    def _open(self, folder: Path) -> RequestFederation:
        """The parties, written into ``folder`` if they are not there yet."""
        if not (folder / "trio.toml").exists():
            return write_trio(folder)
        return RequestFederation(folder, folder / "trio.toml")

    def _live_with(self, request: str, persons: dict[str, list[list[str]]]) -> None:
        """Live with a request and without a kill, and record the names of all boundaries."""
        federation, out = self.federation, self.quiet
        shutil.copytree(self.trained, out)
        watches = {name: Watch(self._folder / f"{name}.log") for name in federation.roles}
        with federation.serve(out, watches) as service:
            federation.wait_certified(service, request)
            names = {
                name: [line for line in each.log.read_text().split("\n") if line]
                for name, each in watches.items()
            }
            self.request, self.persons = request, persons
            self._digests = {}
            failures = self.judge(service)
        assert not failures, failures
        content = {
            "request": request,
            "names": names,
            "digests": self._model_digests(out),
            "persons": persons,
        }
        (self._folder / "quiet.json").write_text(json.dumps(content))

    def _live(self, kills: tuple[Kill, ...]) -> KilledLife:
        federation, out = self.federation, self._folder / "killed"
        self._clean(out)
        shutil.copytree(self.trained, out)
        logs = {party: self._folder / f"killed {party}.log" for party, _ in kills}
        for each in logs.values():
            each.unlink(missing_ok=True)
        failures: list[str] = []
        began = monotonic()
        watches = {party: Watch(logs[party], boundary) for party, boundary in kills}
        with federation.serve(out, watches) as service:
            try:
                joins = self._restart_killed(service, set(watches))
                restarted = monotonic()
                federation.wait_certified(service, self.request, LIMIT)
                for party, before in joins.items():
                    federation.wait_joined(party, out, before + 1, LIMIT)
                seconds = monotonic() - restarted
                failures += self.judge(service)
            except AssertionError as error:
                seconds = monotonic() - began
                failures.append(str(error))
        names = tuple(each.read_text().splitlines()[-1] for each in logs.values() if each.exists())
        if failures:
            kept = self._folder / " ".join(["failed", *(f"{name} {at}" for name, at in kills)])
            self._clean(kept)
            out.rename(kept)
            for each in self._folder.glob("killed *.jsonl"):
                each.rename(kept / each.name)
        return KilledLife(kills, names, round(seconds, 2), tuple(failures))

    def _restart_killed(self, service: Service, parties: set[str]) -> dict[str, int]:
        """Start each of ``parties`` again after its kill; return how often it had joined before.

        Raises:
            AssertionError: a process ended in another way, or was not killed in time.
        """
        joins, deadline, waiting = dict[str, int](), monotonic() + LIMIT, set(parties)
        while waiting:
            ended = {n: each.exitcode for n, each in service.running.items() if each.exitcode}
            for name, code in ended.items():
                assert code == -SIGKILL, f"{name} ended with {code}: {self._notes(service)}"
                joins[name] = self.federation.joins(name, service.out)
                service.start(name)
                waiting.discard(name)
            assert monotonic() < deadline, f"{waiting} were not killed: {self._notes(service)}"
            sleep(0.002)
        return joins

    def _notes(self, service: Service) -> str:
        return self.federation.notes(service.out)

    def _clean(self, out: Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        for each in self._folder.glob(f"{out.name} *.jsonl"):
            each.unlink()

    def judge(self, service: Service) -> list[str]:
        """Stop all parties; return what is wrong with their folders."""
        codes = service.stop()
        failures = [f"{name} ended with {code}" for name, code in codes.items() if code]
        out = service.out
        for name in self.federation.roles:
            failures += [f"{name}: {each}" for each in self._wrong_journal(name, out)]
            failures += [f"{name}: {each}" for each in self._wrong_store(name, out)]
        failures += self._wrong_receipts(out)
        failures += search_persons(out, self.persons)
        if self._digests:
            digests = self._model_digests(out)
            failures += [
                f"{name} differs from that of the quiet life"
                for name in sorted(digests.keys() | self._digests.keys())
                if digests.get(name) != self._digests.get(name)
            ]
        return failures

    # --- checks ----------------------------------------------------------------------------------

    def _wrong_journal(self, name: str, out: Path) -> Iterator[str]:
        """Whether the request was carried out once, in the journal of a party."""
        with self.federation.desk(name, out) as desk:
            view, events = desk.request(self.request), desk.journal.events(self.request)
            desk.journal.check_signatures()
        if view.state is not RequestState.CERTIFIED or view.starts != 1 or view.ignored:
            yield f"{view.state}, {view.starts} starts, {view.ignored} ignored events"
        for kind in ONCE:
            count = sum(event.kind is kind for event in events)
            if count != 1:
                yield f"{count} events {kind.value}"
        stated = [event for event in events if isinstance(event.body, StatedBody)]
        if len(stated) != len(self.federation.roles):
            yield f"{len(stated)} statements"
        yield from (f"{event.origin} still has {event.body.remains}" for event in stated
                    if isinstance(event.body, StatedBody) and event.body.remains)  # fmt: skip

    def _wrong_store(self, name: str, out: Path) -> Iterator[str]:
        """Whether a party has one version more than before, and nothing else."""
        store = party_models(self.federation.party(name, out))
        files = [(each.readable, each.version) for each in store.files()]
        versions = [version for _, version in files if version is not None]
        if len(files) != 1 or not files[0][0] or len(versions) != 1:
            yield f"keeps {len(files)} files: {files}"
        elif versions[0].requests != (self.request,) or versions[0].parent != 1:
            yield f"keeps {versions[0]}"
        keys = {each for each in store._keys.all() if each.startswith("model ")}
        if len(keys) != 1:
            yield f"has the keys {sorted(keys)}"
        if rest := [each.name for each in store.folder.parent.rglob("*.tmp")]:
            yield f"left {rest}"

    def _wrong_receipts(self, out: Path) -> Iterator[str]:
        """Whether all parties have the same receipt, and it verifies."""
        contents = {
            name: path.read_bytes()
            for name, path in self.federation.receipts(out, self.request).items()
        }
        if len(contents) != len(self.federation.roles) or len(set(contents.values())) != 1:
            yield f"{len(set(contents.values()))} different receipts"
        with self.federation.desk(self.federation.hub, out) as desk:
            keys = [TrustedKey(party=n, public_key=key) for n, key in desk.keys.known.items()]
        trust = TrustFile(federation=self.federation.name, keys=tuple(keys))
        for path in self.federation.receipts(out, self.request).values():
            if not path.with_name(TRUST).exists():
                yield f"no {TRUST} beside {path}"
        for name, content in contents.items():
            found = verify(content, trust)
            if found.exit_code != ExitCode.VALID:
                yield f"the receipt of {name} is not valid: {found.findings}"

    def _model_digests(self, out: Path) -> dict[str, str]:
        """Digests of the final files of all parties, and of the tensors that they keep."""
        files = sorted((out / self.federation.name).glob("*/*.safetensors"))
        found = {
            f"{each.parent.name}/{each.name}": sha256(each.read_bytes()).hexdigest()
            for each in files
        }
        for name in self.federation.roles:
            store = party_models(self.federation.party(name, out))
            newest = store.newest_version()
            assert newest is not None
            digest = sha256()
            for group, tensors in sorted(store.read(newest.number).tensors.items()):
                for key, tensor in sorted(tensors.items()):
                    digest.update(f"{group} {key} {tensor.dtype} {tuple(tensor.shape)}".encode())
                    digest.update(tensor.contiguous().numpy().tobytes())
            found[f"{name}, kept version"] = digest.hexdigest()
        return found

    def _subjects(self) -> dict[str, list[list[str]]]:
        """ID and features at every party of the rows to be forgotten."""
        federation, chosen = self.federation, dict[str, list[list[str]]]()
        for name in federation.roles:
            store = party_models(federation.party(name, self.trained))
            by_row = {row: each.decode() for each, row in kept_rows(store).items()}
            wanted = {by_row[row] for row in ROWS}
            for line in (self._folder / f"{name}.csv").read_text().splitlines()[1:]:
                person, *cells = line.split(",")
                if person in wanted:
                    chosen.setdefault(person, []).append(cells[:3])
        return chosen


def spread_numbers(count: int) -> list[int]:
    """All numbers below ``count``, in an order of which each beginning is spread evenly."""
    step = 1 + int(count * 0.618)
    while _common_divisor(step, count) != 1:
        step += 1
    return [number * step % count for number in range(count)]


def _common_divisor(a: int, b: int) -> int:
    return a if not b else _common_divisor(b, a % b)
