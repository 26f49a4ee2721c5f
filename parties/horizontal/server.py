"""The server's role program: rounds, requests and the report; it holds no row of anybody."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from torch import Tensor

from configs.federated import Asked, Federated
from parties import join
from parties.errors import PolicyError, public
from parties.horizontal.aggregation import promise
from parties.horizontal.choice import ORIGINAL
from parties.horizontal.clusters import Tracks
from parties.horizontal.cohort import Cohort, Member
from parties.horizontal.door import Door
from parties.horizontal.evaluation.outcome import (
    Against,
    Diary,
    Outcome,
    Scores,
    Stage,
    Unlearned,
    against,
    unlearn,
)
from parties.horizontal.final import save_model
from parties.horizontal.history import StoredRounds
from parties.horizontal.hub_cohort import HubCohort, Manner
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.report import VERSION
from parties.horizontal.scene import Scene, Turn
from parties.horizontal.subjects import subject
from parties.horizontal.training import Span, Trained, train

Publish = Callable[[dict[str, Any]], None]
TRIES = 3  # to hear from every client whom a request concerns
LIBRARIES = ("vfl", "torch", "numpy", "grpcio", "protobuf", "cryptography")


def run_server(party: FederatedParty, port: join.Port, publish: Publish) -> dict[str, Any]:
    """Wait for the clients, train, carry out every request; the metrics of the run."""
    door, agreement = Door(party, port), party.agreement
    manner = _manner(party)
    channels = door.open()
    cohort = HubCohort(agreement.spokes, channels, door.arrivals, manner, party.watch.warn)
    try:
        record = Record(party, checkpoints(party), door.session)
        server = Server(party, cohort, record)
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
    """A server with its clients and its record."""

    def __init__(self, party: FederatedParty, cohort: Cohort, record: Record) -> None:
        self._party, self._cohort, self.record = party, cohort, record
        self._agreement, self._subject = party.agreement, subject(party)
        self._delivered: Tensor | None = None
        self._line = ""  # of what of the delivered model is the clients' own
        self._gone: Sequence[Member] = ()  # of the present request

    def story(self) -> dict[str, Any]:
        """Train, and carry out every request when it comes."""
        model, rounds, requests = self._subject.fresh(ORIGINAL), list[dict[str, Any]](), []
        members, begin = [Member(name) for name in self._agreement.spokes], 0
        for end, due in arrivals(self._agreement):
            if end > begin:
                model = self._train(Span(begin, end, model, members, self._history()), rounds)
                begin = end
            for request in due:
                model, staying, told = self._carry_out(request, model, end)
                members = [Member(each.client) for each in staying]
                requests.append(told)
        if requests:  # it remembers who has left, and nobody asks for it any more
            StoredRounds(self._party.state / "history", 0).clear()
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
            "software": {name: version(name) for name in LIBRARIES},
            **self._subject.told(),
        }

    def _new_line(self, name: str, parent: str | None) -> str:
        """Go over to a line that begins now.

        Work that a crash undid is done again on another one: on the first, clients hold what they
        made of it.
        """
        line = f"{self.record.run.hex()} {name} {self.record.start.hex()[:8]}"
        self._cohort.follow(line, parent)
        return line

    def _train(self, span: Span, rounds: list[dict[str, Any]]) -> Tensor:
        def work() -> Trained:
            line = self._new_line(span.name, self._line or None)
            return train(self._party, self._subject, self._cohort, self.record, span, line)

        trained = self.record.once(span.name, Trained, work)
        self._line = trained.line
        self._cohort.follow(self._line, None)
        rounds += trained.rounds
        return trained.model

    def _history(self) -> StoredRounds:
        return StoredRounds(self._party.state / "history", self._subject.history)

    def _tracks(self) -> Tracks | None:
        groups = self._subject.clusters
        return Tracks(self._party.state / "clusters", groups) if groups else None

    def _carry_out(
        self, request: Asked, original: Tensor, rounds: int
    ) -> tuple[Tensor, list[Member], dict[str, Any]]:
        name = request.name
        self._cohort.attend(name)
        leaving, staying = self._members(name, original)
        self._gone = leaving
        # Where nobody has such rows there is nothing to forget, and the model stays as it is.
        all_ways = self._subject.ways(rounds) if leaving else []
        found = [self._untouched(name, original)]
        unlearned = []
        for way in all_ways:
            scene = partial(self._scene, original, leaving, staying)
            model, outcome = self._one(name, way, scene, original)
            found.append(outcome)
            unlearned.append(model)
        delivered = unlearned[0].model if unlearned else original
        self._line = unlearned[0].line if unlearned else self._line
        self._cohort.follow(self._line, None)
        self.record.keep()  # once rows are gone, nothing can be asked of them again
        purged = self._cohort.purge()
        beside = self._subject.figures(found, [each.client for each in leaving])
        told = {
            "name": name,
            "chosen": all_ways[0].name if all_ways else ORIGINAL,
            "leaving": [str(each) for each in leaving],
            "staying": len({each.client for each in staying}),
            "methods": [
                asdict(each) | {"figures": [one.plain() for one in beside[each.name]]}
                for each in found
            ],
            "purged": purged,
        }
        return delivered, staying, told

    def _scene(
        self,
        original: Tensor,
        leaving: Sequence[Member],
        staying: Sequence[Member],
        tell: Callable[[Turn], None],
    ) -> Scene:
        history, make = self._history() if self._subject.history else None, self._subject.fresh
        tracks = self._tracks()
        return Scene(self._cohort, original, leaving, staying, make, history, tell, tracks)

    def _one(
        self,
        request: str,
        way: Method,
        scene: Stage,
        original: Tensor,
    ) -> tuple[Unlearned, Outcome]:
        record, name = self.record, f"{request} {way.name}"
        self._party.watch.phase(way.name)

        def work() -> Unlearned:
            line = self._new_line(name, None if isinstance(way, Retrain) else self._line)
            step, asked = self._party.watch.step, self._against(name, line, scene)
            return unlearn(way, scene, Diary(original, step, self._sent, asked), line)

        found = record.once(f"{request}: {way.name}", Unlearned, work)
        self._cohort.follow(found.line, None)
        scores = record.once(f"{name} read", Scores, partial(self._read, found.model))
        marks = self._marks(request, way.name, found.model)
        stages = {}
        if found.between is not None:
            half = partial(self._read, found.between)
            stages["unlearned"] = record.once(f"{name} unlearned", Scores, half)
        if self._subject.revert:
            further = partial(self._reverted, name, found, scene)
            stages["reverted"] = record.once(f"{name} reverted", Scores, further)
        guarantee, turns, size = way.guarantee.value, found.turns, found.size
        return found, Outcome(
            way.name, guarantee, found.seconds, size, scores, stages, turns, marks
        )

    def _reverted(self, name: str, found: Unlearned, scene: Stage) -> Scores:
        """The scores after further rounds of those who stay: what was forgotten may come back."""
        rounds = self._subject.revert
        course = replace(self._subject.training(f"{name} revert"), rounds=rounds)
        self._party.watch.phase(f"{name}, reverting test", rounds)
        self._new_line(f"{name} reverted", found.line)
        after = recover(scene(lambda _: self._party.watch.step()), found.model, course)
        scores = self._read(after)
        self._cohort.follow(found.line, None)
        return scores

    def _against(self, name: str, line: str, scene: Stage) -> Against | None:
        """Asks those who stay about a step, where the agreement wants that.

        They learn to answer, and what is their own would learn on ``line``, too: it goes aside.
        """
        if not self._subject.conflicts:
            return None
        staying = scene(lambda _: None).staying
        course, own = self._subject.training(f"{name} conflicts"), self._subject.own

        def ask(number: int, before: Tensor, after: Tensor) -> tuple[int, float]:
            if not own:
                return against(self._cohort, staying, course.at(number), before, after)
            self._new_line(f"{name} conflicts {number}", line)
            found = against(self._cohort, staying, course.at(number), before, after)
            self._cohort.follow(line, None)
            return found

        return ask

    def _members(self, request: str, model: Tensor) -> tuple[list[Member], list[Member]]:
        """Who leaves and who stays; after a crash the rows that tell it may be gone."""

        def ask() -> dict[str, list[str]]:
            leaving, staying = members(self._cohort, request, model)
            return {
                "forgotten": [each.client for each in leaving],
                "retained": [each.client for each in staying],
            }

        found = self.record.once(f"{request} members", dict, ask)
        leaving = [Member(name, "forgotten") for name in found["forgotten"]]
        return leaving, [Member(name, "retained") for name in found["retained"]]

    def _sent(self) -> int:
        return self._party.ledger.total().size

    def _untouched(self, request: str, model: Tensor) -> Outcome:
        scores = self.record.once(f"{request}: original", Scores, partial(self._read, model))
        marks = self._marks(request, ORIGINAL, model)
        return Outcome(ORIGINAL, None, 0.0, 0, scores, marks=marks)

    def _marks(self, request: str, name: str, model: Tensor) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            return self._subject.marks(name, model)

        return self.record.once(f"{request} {name} marks", dict, work)

    def _read(self, model: Tensor) -> Scores:
        return self._subject.read(self._cohort, model, self._gone)


def arrivals(agreement: Federated) -> list[tuple[int, list[Asked]]]:
    """After which rounds of the training requests come, and which; at last the end of it."""
    last, when = agreement.training.rounds, dict[int, list[Asked]]()
    for each in agreement.unlearn:
        when.setdefault(getattr(each, "round", None) or last, []).append(each)
    return sorted({last: list[Asked](), **when}.items())


def members(cohort: Cohort, request: str, model: Tensor) -> tuple[list[Member], list[Member]]:
    """Who leaves and who stays, as their rows say; who is lost in the meantime is waited for.

    Raises:
        PolicyError: one of them does not answer: nobody may be passed over.
    """
    for _ in range(TRIES):
        gone = cohort.read(cohort.clients, "forgotten", model)
        left = cohort.read(cohort.clients, "retained", model)
        silent = [name for name in cohort.clients if name not in gone or name not in left]
        if not silent:
            leaving = [Member(name, "forgotten") for name, each in gone.items() if each.rows]
            return leaving, [Member(name, "retained") for name, each in left.items() if each.rows]
        cohort.attend(request)
    raise PolicyError(
        f"{', '.join(silent[:10])} did not say whether request {request!r} concerns its rows"
    )
