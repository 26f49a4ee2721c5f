"""Requests to forget: every way is tried, and what it makes is measured."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import isfinite
from typing import Any

from torch import Tensor

from configs.federated import Asked
from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.branches import Lines
from parties.horizontal.engine.clusters import Tracks
from parties.horizontal.engine.cohort import SMALLER, Cohort, Member
from parties.horizontal.engine.history import StoredRounds
from parties.horizontal.engine.per_request_randomness import Salted
from parties.horizontal.engine.recovery_branch import Parting
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.evaluation.outcome import (
    Against,
    Diary,
    Outcome,
    Scores,
    Stage,
    Unlearned,
    against,
    nothing,
    unlearn,
)
from parties.horizontal.methods.knot import Knot
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import Record
from parties.horizontal.registry import ORIGINAL
from parties.horizontal.task import Subject
from unlearning.audit.figure import Figure

ALONE = ("ratios",)  # marks of single questions: they are compared, and not kept
TRIES = 3  # to hear from every client whom a request concerns


class Requests:
    """Carries them out, one after the other."""

    def __init__(
        self,
        party: FederatedParty,
        cohort: Cohort,
        record: Record,
        lines: Lines,
        subject: Subject,
    ) -> None:
        self._party, self._cohort, self._record = party, cohort, record
        self._lines, self._subject = lines, subject
        self._gone: Sequence[Member] = ()  # of the present request
        self._salt = ""  # of its randomness

    def _history(self) -> StoredRounds:
        return StoredRounds(self._party.state / "history", self._subject.history)

    def _tracks(self) -> Tracks | None:
        groups = self._subject.clusters
        return Tracks(self._party.state / "clusters", groups) if groups else None

    def carry_out(
        self, request: Asked, original: Tensor, rounds: int
    ) -> tuple[Tensor, list[Member], dict[str, Any]]:
        """The model without what is asked to go, who stays, and what the metrics say of it.

        ``rounds`` are those of the training until now.

        Raises:
            Diverged: the chosen way did, or a Retrain.
            PolicyError: nobody may be passed over, and somebody is not here; or sums would show
                what a few clients had learned.
        """
        name = request.name
        first = name == self._party.agreement.unlearn[0].name
        sums = self._party.agreement.aggregation
        self._salt = "" if first or sums.kind == "none" else f" {name}"
        self._cohort.attend(name)
        leaving, staying = self._members(name, original)
        self._gone = leaving
        # Where nobody has such rows there is nothing to forget, and the model stays as it is.
        all_ways = self._subject.ways(rounds) if leaving else []
        if all_ways:
            self._require_answerable(name, leaving, staying, all_ways)
        found = [self._untouched(name, original)]
        unlearned: list[Unlearned] = []
        for way in all_ways:
            scene = partial(self._scene, name, way, original, leaving, staying)
            model, outcome = self._one(name, way, scene, original)
            if outcome.diverged and (not unlearned or isinstance(way, Retrain)):
                # Nothing could be delivered, or nothing would be there to measure by.
                raise Diverged(f"request {name!r}: {way.name} {outcome.diverged}", SMALLER)
            found.append(outcome)
            unlearned.append(model)
        delivered = unlearned[0].model if unlearned else original
        self._lines.stay(unlearned[0].line if unlearned else self._lines.present)
        beside = self._subject.figures(found, [each.client for each in leaving])
        self._record.keep()  # once rows are gone, nothing can be asked of them again
        purged = self._cohort.purge()
        self._history().forget([each.client for each in leaving])
        told = {
            "name": name,
            "chosen": all_ways[0].name if all_ways else ORIGINAL,
            "leaving": [str(each) for each in leaving],
            "staying": len({each.client for each in staying}),
            "methods": [_told(each, beside[each.name]) for each in found],
            "purged": purged,
        }
        return delivered, staying, told

    def _require_answerable(
        self,
        name: str,
        leaving: Sequence[Member],
        staying: Sequence[Member],
        ways: Sequence[Method],
    ) -> None:
        """Refuse what leaves nobody, and sums without the rows of a few, whose update they show."""
        if not staying:
            raise PolicyError(
                f"request {name!r} leaves nobody with rows: there is no model to go on with",
                "end the federation, or name fewer who leave",
            )
        sums = self._party.agreement.aggregation
        gone, repeated = {each.client for each in leaving}, list[tuple[str, ...]]()
        if self._subject.one_start:
            repeated = [tuple(self._cohort.clients)]
        elif any(isinstance(way, Knot) for way in ways):
            repeated = list(self._subject.clusters)
        few = [len(gone & {*each}) for each in repeated if 0 < len(gone & {*each}) < sums.least]
        if sums.kind != "none" and few:
            raise PolicyError(
                f"request {name!r} is about rows of {few[0]} of the clients that learn together, "
                "and the same sum without them would show what they had learned of these rows",
                f"aggregation.least = {sums.least} says how many it takes: ask for rows that more "
                "clients hold",
            )

    def _scene(
        self,
        request: str,
        way: Method,
        original: Tensor,
        leaving: Sequence[Member],
        staying: Sequence[Member],
        tell: Callable[[Turn], None],
    ) -> Scene:
        def make(stream: str) -> Tensor:
            return self._subject.fresh(stream + self._salt)

        history = self._history() if self._subject.history else None
        # Knot's clusters learn as they did before.
        cohort = self._cohort if isinstance(way, Knot) else Salted(self._cohort, self._salt)
        tracks, secret = self._tracks(), partial(self._secret, f"{request} {way.name} secret")
        return Scene(cohort, original, leaving, staying, make, history, tell, tracks, secret)

    def _secret(self, name: str) -> bytes:
        """The same after a crash: two models that differ by noise alone would show it."""
        found = self._record.once(name, str, lambda: self._party.entropy(32).hex())
        self._record.keep()
        return bytes.fromhex(found)

    def _one(
        self,
        request: str,
        way: Method,
        scene: Stage,
        original: Tensor,
    ) -> tuple[Unlearned, Outcome]:
        record, name = self._record, f"{request} {way.name}"
        self._party.watch.phase(way.name, way.rounds)

        def work() -> Unlearned:
            line = self._lines.begin(
                name, None if isinstance(way, Retrain) else self._lines.present
            )
            step, asked = self._party.watch.step, self._against(name, line, scene)
            diary = Diary(original, step, self._sent, asked)
            if not self._subject.own:
                return unlearn(way, scene, diary, line)
            apart: list[Parting] = []

            def parting(tell: Callable[[Turn], None]) -> Scene:
                here = scene(tell)
                begin = partial(self._lines.begin, f"{name} recovery", line)
                apart.append(Parting(here.cohort, begin))
                return replace(here, cohort=apart[-1])

            done = unlearn(way, parting, diary, line)
            return replace(done, line=apart[-1].line or line)

        found = record.once(f"{request}: {way.name}", Unlearned, work)
        self._cohort.follow(found.line, None)
        if found.diverged:
            return found, self._failed(way, found, found.diverged)
        try:
            scores = record.once(f"{name} read", Scores, partial(self._read, found.model))
        except Diverged as error:
            return found, self._failed(way, found, f"made a model that cannot be read: {error}")
        if not all(isfinite(one.loss) for part in scores.values() for one in part.values()):
            return found, self._failed(way, found, "ended with outputs that are not finite")
        marks = self._marks(request, way.name, found.model)
        stages = {}
        if found.between is not None:
            half = partial(self._between, found, found.between)
            stages["unlearned"] = record.once(f"{name} unlearned", Scores, half)
        if self._subject.revert:
            further = partial(self._reverted, name, found, scene)
            stages["reverted"] = record.once(f"{name} reverted", Scores, further)
        taken = (way.guarantee.value, found.seconds, found.size)
        return found, Outcome(way.name, *taken, scores, stages, found.turns, marks=marks)

    def _failed(self, way: Method, found: Unlearned, why: str) -> Outcome:
        """What is known of a way that made no model to be measured."""
        self._party.watch.warn(f"{way.name} {why}")
        taken = (way.guarantee.value, found.seconds, found.size)
        return Outcome(way.name, *taken, nothing(), turns=found.turns, diverged=why)

    def _between(self, found: Unlearned, model: Tensor) -> Scores:
        """The scores before recovery, with what was the clients' own then."""
        self._cohort.follow(found.line_between, None)
        try:
            scores = self._read(model)
        except Diverged:  # before it recovered
            scores = nothing()
        self._cohort.follow(found.line, None)
        return scores

    def _reverted(self, name: str, found: Unlearned, scene: Stage) -> Scores:
        """The scores after further rounds of those who stay: what was forgotten may come back."""
        rounds = self._subject.revert
        course = replace(self._subject.training(f"{name} revert"), rounds=rounds)
        self._party.watch.phase(f"{name}, reverting test", rounds)
        self._lines.begin(f"{name} reverted", found.line)
        try:
            after = recover(scene(lambda _: self._party.watch.step()), found.model, course)
            scores = self._read(after)
        except Diverged as error:
            self._party.watch.warn(f"{name}, reverting test: {error}")
            scores = nothing()
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
            self._lines.begin(f"{name} conflicts {number}", line)
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

        found = self._record.once(f"{request} members", dict, ask)
        leaving = [Member(name, "forgotten") for name in found["forgotten"]]
        return leaving, [Member(name, "retained") for name in found["retained"]]

    def _sent(self) -> int:
        return self._party.ledger.total().size

    def _untouched(self, request: str, model: Tensor) -> Outcome:
        scores = self._record.once(f"{request}: original", Scores, partial(self._read, model))
        marks = self._marks(request, ORIGINAL, model)
        return Outcome(ORIGINAL, None, 0.0, 0, scores, marks=marks)

    def _marks(self, request: str, name: str, model: Tensor) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            return self._subject.marks(name, model)

        return self._record.once(f"{request} {name} marks", dict, work)

    def _read(self, model: Tensor) -> Scores:
        return self._subject.read(self._cohort, model, self._gone)


def _told(outcome: Outcome, figures: Sequence[Figure]) -> dict[str, Any]:
    """What the metrics say of one model; figures of single questions are not kept."""
    marks = {name: each for name, each in outcome.marks.items() if name not in ALONE}
    return asdict(outcome) | {"figures": [each.plain() for each in figures], "marks": marks}


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
