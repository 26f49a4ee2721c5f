"""The server's role program: rounds, requests and the report; it holds no row of anybody."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from torch import Tensor

from configs.federated import Asked, Federated
from parties.common.errors import public
from parties.horizontal.admission import Door
from parties.horizontal.engine.aggregation import promise
from parties.horizontal.engine.branches import Lines
from parties.horizontal.engine.clusters import Tracks
from parties.horizontal.engine.cohort import Cohort, Member, require_bounded
from parties.horizontal.engine.history import StoredRounds
from parties.horizontal.engine.hub_cohort import HubCohort, Manner
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.registry import ORIGINAL
from parties.horizontal.requests import Requests
from parties.horizontal.saved_model import save_model
from parties.horizontal.task import Subject
from parties.horizontal.tasks import subject
from parties.horizontal.train import Span, Trained, train
from parties.report.horizontal import VERSION
from parties.session import handshake as join

Publish = Callable[[dict[str, Any]], None]
LIBRARIES = ("vfl", "torch", "numpy", "grpcio", "protobuf", "cryptography")


def run_server(
    party: FederatedParty, port: join.Port, publish: Publish, taught: Subject | None = None
) -> dict[str, Any]:
    """Wait for the clients, train, carry out every request; the metrics of the run.

    ``taught`` is what is laid out already; otherwise it is once all are here.
    """
    door, agreement = Door(party, port), party.agreement
    manner = _manner(party)
    channels = door.open()
    cohort = HubCohort(agreement.spokes, channels, door.arrivals, manner, party.watch.warn)
    try:
        record = Record(party, checkpoints(party), door.session)
        server = Server(party, cohort, record, taught)
        metrics = server.story()
        publish(metrics)
        cohort.deliver(server.delivered())
        cohort.goodbye()
    except Exception as error:
        cohort.abort(*public(error))
        raise
    finally:
        cohort.close()
    server.record.clear()
    return metrics


def _manner(party: FederatedParty) -> Manner:
    agreement, sums = party.agreement, party.agreement.aggregation
    return Manner(
        agreement.training.quorum,
        agreement.limits.idle_seconds,
        None if sums.kind == "none" else sums.least,
        party.entropy,
        sums.keepers if sums.kind == "ckks" else None,
        agreement.limits.rejoin_seconds,
    )


class Server:
    """A server with its clients and its record.

    Args:
        taught: what it teaches, where that is laid out already.
    """

    def __init__(
        self, party: FederatedParty, cohort: Cohort, record: Record, taught: Subject | None = None
    ) -> None:
        self._party, self.record = party, record
        self._agreement, self._subject = party.agreement, taught or subject(party)
        self._cohort = cohort = self._subject.around(cohort)
        self._delivered: Tensor | None = None
        self._lines = Lines(cohort, record)
        self._requests = Requests(party, cohort, record, self._lines, self._subject)

    def story(self) -> dict[str, Any]:
        """Train, and carry out every request when it comes."""
        model, rounds, requests = self._subject.fresh(ORIGINAL), list[dict[str, Any]](), []
        members, begin = [Member(name) for name in self._agreement.spokes], 0
        for end, due in arrivals(self._agreement):
            if end > begin:
                model = self._train(Span(begin, end, model, members, self._history()), rounds)
                begin = end
            for request in due:
                model, staying, told = self._requests.carry_out(request, model, end)
                members = [Member(each.client) for each in staying]
                requests.append(told)
        if requests:  # it remembers who has left, and nobody asks for it any more
            StoredRounds(self._party.state / "history", 0).clear()
            Tracks(self._party.state / "clusters", ()).clear()
        self._delivered = model
        return {
            "version": VERSION,
            "run": self._run(),
            "training": {"rounds": rounds},
            "requests": requests,
            "traffic": self._party.ledger.by_phase(),
            "peers": self._party.ledger.by_peer(),
        }

    def delivered(self) -> Tensor:
        """The model that the story ended with, ``[d]``, which is written.

        Raises:
            LookupError: it is not told yet.
        """
        if self._delivered is None:
            raise LookupError("no story, no model")
        save_model(self._party, self._subject.delivered(self._delivered), self.record.run)
        return self._delivered

    def _run(self) -> dict[str, Any]:
        agreement = self._agreement
        return {
            "federation": agreement.federation,
            "mode": agreement.mode,
            "clients": len(agreement.spokes),
            "parameters": self._subject.fresh(ORIGINAL).numel(),
            "aggregation": promise(agreement),
            "rule": agreement.training.rule.kind,
            "share": agreement.training.share,
            "seed": agreement.seed,
            "session": self.record.run.hex(),
            "agreement": self._party.digest.hex(),
            "seconds": self._party.ledger.elapsed,
            "software": {name: version(name) for name in (*LIBRARIES, *self._subject.libraries)},
            **self._subject.told(),
        }

    def _train(self, span: Span, rounds: list[dict[str, Any]]) -> Tensor:
        def work() -> Trained:
            line = self._lines.begin(span.name, self._lines.present or None)
            trained = train(self._party, self._subject, self._cohort, self.record, span, line)
            require_bounded(trained.model, self._agreement.limits.magnitude)
            return trained

        trained = self.record.once(span.name, Trained, work)
        self._lines.stay(trained.line)
        rounds += trained.rounds
        return trained.model

    def _history(self) -> StoredRounds:
        return StoredRounds(self._party.state / "history", self._subject.history)


def arrivals(agreement: Federated) -> list[tuple[int, list[Asked]]]:
    """After which rounds of the training requests come, and which; at last the end of it."""
    last, when = agreement.training.rounds, dict[int, list[Asked]]()
    for each in agreement.unlearn:
        when.setdefault(getattr(each, "round", None) or last, []).append(each)
    return sorted({last: list[Asked](), **when}.items())
