"""The server's role program: rounds, requests and the report; it holds no row of anybody."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from torch import Tensor
from torch.nn.utils import vector_to_parameters

from configs.horizontal import Horizontal, Leaving
from parties import join
from parties.errors import Diverged, PolicyError, public
from parties.horizontal.aggregation import promise
from parties.horizontal.choice import ORIGINAL, clusters, training, ways
from parties.horizontal.clusters import Tracks
from parties.horizontal.cohort import SMALLER, Cohort, Member
from parties.horizontal.door import Door
from parties.horizontal.evaluation.figures import figures
from parties.horizontal.evaluation.lent import Lender
from parties.horizontal.evaluation.outcome import (
    Against,
    Diary,
    Outcome,
    Scores,
    Stage,
    Unlearned,
    against,
    nothing,
    read,
    unlearn,
)
from parties.horizontal.final import save_model
from parties.horizontal.history import StoredRounds
from parties.horizontal.hub_cohort import HubCohort, Manner
from parties.horizontal.learning.networks import build, fresh
from parties.horizontal.learning.personal import has_own
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.parting import Parting
from parties.horizontal.party import HorizontalParty
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.report import VERSION
from parties.horizontal.scene import Scene, Turn
from parties.horizontal.training import NAME, Trained, train

Publish = Callable[[dict[str, Any]], None]
TRIES = 3  # to hear from every client whom a request concerns
LIBRARIES = ("vfl", "torch", "numpy", "grpcio", "protobuf", "cryptography")


def run_server(party: HorizontalParty, port: join.Port, publish: Publish) -> dict[str, Any]:
    """Wait for the clients, train, carry out every request; the metrics of the run."""
    door, agreement = Door(party, port), party.agreement
    manner = _manner(party)
    channels = door.open()
    cohort = HubCohort(agreement.spokes, channels, door.arrivals, manner, party.watch.warn)
    try:
        server = Server(party, cohort, Record(party, checkpoints(party), door.session))
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


def _manner(party: HorizontalParty) -> Manner:
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

    def __init__(self, party: HorizontalParty, cohort: Cohort, record: Record) -> None:
        self._party, self._cohort, self.record = party, cohort, record
        self._agreement = party.agreement
        self._delivered: Tensor | None = None
        self._line = ""  # of what of the delivered model is the clients' own
        self._lender: Lender | None = None  # of the present request

    def story(self) -> dict[str, Any]:
        """Train, then carry out every request."""
        trained = self.record.once(NAME, Trained, self._train)
        model, self._line = trained.model, trained.line
        self._cohort.follow(self._line, None)
        requests = []
        for request in self._agreement.unlearn:
            model, told = self._carry_out(request, model)
            requests.append(told)
        if requests:  # it remembers who has left, and nobody asks for it any more
            StoredRounds(self._party.state / "history", 0).clear()
        self._delivered = model
        return {
            "version": VERSION,
            "run": self._run(),
            "training": {"rounds": trained.rounds},
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
        network = build(self._agreement, "shape")
        vector_to_parameters(self._delivered.clone(), network.parameters())
        save_model(self._party, network, self.record.run)
        return self._delivered

    def _run(self) -> dict[str, Any]:
        agreement = self._agreement
        return {
            "federation": agreement.federation,
            "mode": "horizontal",
            "clients": len(agreement.spokes),
            "parameters": fresh(agreement, ORIGINAL).numel(),
            "aggregation": promise(agreement),
            "partition": agreement.partition.kind,
            "personal": agreement.personal.kind,
            "rule": agreement.training.rule.kind,
            "share": agreement.training.share,
            "revert": agreement.evaluation.revert,
            "seed": agreement.seed,
            "session": self.record.run.hex(),
            "agreement": self._party.digest.hex(),
            "seconds": self._party.ledger.elapsed,
            "software": {name: version(name) for name in LIBRARIES},
        }

    def _new_line(self, name: str, parent: str | None) -> str:
        """Go over to a line that begins now.

        Work that a crash undid is done again on another one: on the first, clients hold what they
        made of it.
        """
        line = f"{self.record.run.hex()} {name} {self.record.start.hex()[:8]}"
        self._cohort.follow(line, parent)
        return line

    def _train(self) -> Trained:
        line = self._new_line(ORIGINAL, None)
        return train(self._party, self._cohort, self.record, line)

    def _tracks(self) -> Tracks | None:
        groups = clusters(self._agreement)
        return Tracks(self._party.state / "clusters", groups) if groups else None

    def _carry_out(self, request: Leaving, original: Tensor) -> tuple[Tensor, dict[str, Any]]:
        agreement, name = self._agreement, request.name
        self._cohort.attend(name)
        leaving, staying = self._members(name, original)
        self._lender = lender(agreement, leaving)
        # Where nobody has such rows there is nothing to forget, and the model stays as it is.
        chosen = agreement.unlearning.method if leaving else ORIGINAL
        all_ways = ways(agreement) if leaving else []
        found = [self._untouched(name, original)]
        unlearned: list[Unlearned] = []
        for way in all_ways:
            scene = partial(self._scene, original, leaving, staying)
            model, outcome = self._one(name, way, scene, original)
            if outcome.diverged and (not unlearned or isinstance(way, Retrain)):
                # Nothing could be delivered, or nothing would be there to measure by.
                raise Diverged(f"request {name!r}: {way.name} {outcome.diverged}", SMALLER)
            found.append(outcome)
            unlearned.append(model)
        delivered = unlearned[0].model if unlearned else original
        self._line = unlearned[0].line if unlearned else self._line
        self._cohort.follow(self._line, None)
        self.record.keep()  # once rows are gone, nothing can be asked of them again
        purged = self._cohort.purge()
        beside = figures(found, {each.client for each in leaving})
        return delivered, {
            "name": name,
            "chosen": chosen,
            "leaving": [str(each) for each in leaving],
            "staying": len({each.client for each in staying}),
            "methods": [
                asdict(each) | {"figures": [one.plain() for one in beside[each.name]]}
                for each in found
            ],
            "purged": purged,
        }

    def _scene(
        self,
        original: Tensor,
        leaving: Sequence[Member],
        staying: Sequence[Member],
        tell: Callable[[Turn], None],
    ) -> Scene:
        every = self._agreement.history.every
        history = StoredRounds(self._party.state / "history", every) if every else None
        make = partial(fresh, self._agreement)
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
            diary = Diary(original, step, self._sent, asked)
            if not has_own(self._agreement):
                return unlearn(way, scene, diary, line)
            apart = Parting(self._cohort, lambda: self._new_line(f"{name} recovery", line))
            done = unlearn(way, lambda tell: replace(scene(tell), cohort=apart), diary, line)
            return replace(done, line=apart.line or line)

        found = record.once(f"{request}: {way.name}", Unlearned, work)
        self._cohort.follow(found.line, None)
        guarantee, turns = way.guarantee.value, found.turns
        if found.diverged:
            self._party.watch.warn(f"{way.name} {found.diverged}")
            taken = (found.seconds, found.size)
            return found, Outcome(
                way.name, guarantee, *taken, nothing(), turns=turns, diverged=found.diverged
            )
        scores = record.once(f"{name} read", Scores, partial(self._read, found.model))
        stages = {}
        if found.between is not None:
            half = partial(self._between, found, found.between)
            stages["unlearned"] = record.once(f"{name} unlearned", Scores, half)
        if self._agreement.evaluation.revert:
            further = partial(self._reverted, name, found, scene)
            stages["reverted"] = record.once(f"{name} reverted", Scores, further)
        return found, Outcome(way.name, guarantee, found.seconds, found.size, scores, stages, turns)

    def _between(self, found: Unlearned, model: Tensor) -> Scores:
        """The scores before recovery, with what was the clients' own then."""
        self._cohort.follow(found.line_between, None)
        scores = self._read(model)
        self._cohort.follow(found.line, None)
        return scores

    def _reverted(self, name: str, found: Unlearned, scene: Stage) -> Scores:
        """The scores after further rounds of those who stay: what was forgotten may come back."""
        rounds = self._agreement.evaluation.revert
        course = replace(training(self._agreement, f"{name} revert"), rounds=rounds)
        self._party.watch.phase(f"{name}, reverting test", rounds)
        self._new_line(f"{name} reverted", found.line)
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
        if not self._agreement.evaluation.conflicts:
            return None
        staying = scene(lambda _: None).staying
        course, own = training(self._agreement, f"{name} conflicts"), has_own(self._agreement)

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
        return Outcome(ORIGINAL, None, 0.0, 0, scores)

    def _read(self, model: Tensor) -> Scores:
        return read(self._cohort, model, self._lender)


def lender(agreement: Horizontal, leaving: Sequence[Member]) -> Lender | None:
    """Who lends its model to those who leave; None: nobody, as agreed."""
    if agreement.evaluation.by is None:
        return None
    stays = Member(agreement.evaluation.by, "retained")
    return Lender(stays, [each.client for each in leaving], training(agreement, "lent").lesson)


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
