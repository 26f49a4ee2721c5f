"""Unlearning requests: run every method, and evaluate the model of each method."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

from torch import Tensor

from configs.client_unlearning import REPEATED_SUMS
from configs.federated import RequestBase
from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.branches import Branches
from parties.horizontal.engine.clusters import CLUSTERS, ClusterStore
from parties.horizontal.engine.cohort import (
    DIVERGED_HINT,
    AbsentClientError,
    Cohort,
    Member,
)
from parties.horizontal.engine.history import HISTORY, RoundStore
from parties.horizontal.engine.run import ConflictCheck, HorizontalRun
from parties.horizontal.engine.run_journal import RunJournal
from parties.horizontal.engine.training_plan import ORIGINAL
from parties.horizontal.evaluation.outcome import (
    ModelOutcome,
    Scores,
    count_conflicts,
    evaluate_model,
    no_scores,
)
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.horizontal.methods.unlearn import UnlearnedModel, unlearn
from parties.horizontal.party import FederatedParty
from parties.horizontal.task import ServerTask
from parties.report.method_names import Label, is_retrain, method_label
from parties.report.record import (
    Figure,
    MethodCost,
    MethodRecord,
    Request,
    RequestedMembers,
    Step,
    add_shares_of_retrain,
)
from parties.requests.driver import carry_out
from unlearning.audit.metric import Metric
from unlearning.receipts.receipt import AuditLevel

RunFactory: TypeAlias = Callable[[], HorizontalRun]
# Refuses the models of a request, given their records and the name of the chosen method.
Check: TypeAlias = Callable[[Sequence[MethodRecord], str], None]


@dataclass(frozen=True, slots=True)
class AfterRun:
    """What differs for a request that was raised after the run.

    It also has random streams of its own if it is the first one, because requests of earlier
    sessions used those without a salt. A Retrain that diverges is left out of the comparison,
    because the request must be carried out.
    """

    # Called with the records of the original and of the chosen method's model, before any Retrain
    # is trained; it raises PolicyError to refuse the model. None: every model is delivered.
    check: Check | None = None


# Benchmark metrics of single questions, which are not recorded.
PER_QUESTION = ("ratios", "geometric_ratios")
KEPT = (
    "the source data of every client, from which the client must delete the rows itself",
    "copies of the model that clients or other parties made in earlier rounds",
    "hyper-parameters and the number of rounds, which were chosen with the forgotten rows",
)
MEMBER_ATTEMPTS = 3  # to receive from every client whether the request names some of its rows


class RequestRunner:
    """Carries out unlearning requests, one after the other.

    Args:
        party: the server.
        cohort: the clients.
        journal: the journal of the run.
        branches: the branches of the clients' personal parameters.
        task: the task of the run.
        later: what differs for requests after the run; None in a run.
    """

    def __init__(
        self,
        party: FederatedParty,
        cohort: Cohort,
        journal: RunJournal,
        branches: Branches,
        task: ServerTask,
        *,
        later: AfterRun | None = None,
    ) -> None:
        self._party, self._cohort, self._journal = party, cohort, journal
        self._branches, self._task = branches, task
        self._later = later
        self._leaving: Sequence[Member] = ()  # of the present request
        self._salt = ""  # of the present request's random streams

    def _history(self) -> RoundStore:
        return RoundStore(self._party.state / HISTORY, self._task.history_every)

    def _clusters(self) -> ClusterStore | None:
        groups = self._task.clusters
        return ClusterStore(self._party.state / CLUSTERS, groups) if groups else None

    def carry_out(
        self, request: RequestBase, original: Tensor, rounds: int
    ) -> tuple[Tensor, list[Member], Request]:
        """Carry out an unlearning request.

        Args:
            request: the request.
            original: the trained model, ``[d]``.
            rounds: number of training rounds so far.

        Returns:
            The unlearned model, ``[d]``, the remaining members, and the record of the request.

        Raises:
            Diverged: the chosen method or a Retrain model diverged.
            PolicyError: no client with rows remains, a client is not connected, the sums of
                updates, with and without the requested rows, reveal the updates of few clients, or
                the check refuses the model.
        """
        name = request.name
        self._salt = self._salt_of(name)
        self._cohort.select_request(name)
        leaving, remaining = self._members(name, original)
        self._leaving = leaving
        # If no client has such rows, there is nothing to forget and the model does not change.
        methods = self._task.methods(rounds) if leaving else []
        if methods:
            self._require_feasible(name, leaving, remaining, methods)
        unlearned, outcomes = self._run_all(name, methods, original, leaving, remaining)
        delivered = unlearned[0].model if unlearned else original
        if unlearned:  # without one, the clients stay on the branch of the trained model
            self._branches.adopt(unlearned[0].branch)
        records = self._method_records(leaving, methods, outcomes)
        self._journal.flush()  # after the purge, no model can be evaluated on the forgotten rows
        purged = self._cohort.purge()
        self._history().forget([each.client for each in leaving])
        record = Request(
            name=name,
            members=_requested_members(leaving, remaining),
            methods=tuple(records),
            chosen=methods[0].name if methods else ORIGINAL,
            audit_level=_audit_level(methods),
            purged={client: tuple(items) for client, items in purged.items()},
            kept=KEPT,
        )
        return delivered, remaining, record

    def _run_all(
        self,
        request: str,
        methods: Sequence[AnyClientMethod],
        original: Tensor,
        leaving: Sequence[Member],
        remaining: Sequence[Member],
    ) -> tuple[list[UnlearnedModel], list[ModelOutcome]]:
        """The models of all methods, and the outcomes of the original model and of each method."""
        outcomes, unlearned = [self._evaluate_original(request, original)], list[UnlearnedModel]()
        for method in methods:
            new_run = partial(self._new_run, request, method, original, leaving, remaining)
            model, outcome = self._run(request, method, new_run)
            self._require_usable(request, method, outcome, first=not unlearned)
            outcomes.append(outcome)
            unlearned.append(model)
            if len(unlearned) == 1 and self._later is not None and self._later.check is not None:
                self._later.check(self._method_records(leaving, methods, outcomes), method.name)
        return unlearned, outcomes

    def _require_usable(
        self, request: str, method: AnyClientMethod, outcome: ModelOutcome, *, first: bool
    ) -> None:
        """Refuse a request without a model to deliver, or whose metrics would have no reference.

        Raises:
            Diverged: the chosen method, which is the first one, diverged; or in a run, a Retrain.
        """
        needed = first or (method.from_scratch and self._later is None)
        if outcome.diverged and needed:
            raise Diverged(f"request {request!r}: {method.name} {outcome.diverged}", DIVERGED_HINT)

    def _salt_of(self, request: str) -> str:
        """The salt of the random streams of a request; empty for the first request."""
        first = request == self._party.agreement.unlearn[0].name and self._later is None
        sums = self._party.agreement.aggregation
        return "" if first or sums.kind == "none" else f" {request}"

    def _method_records(
        self,
        leaving: Sequence[Member],
        methods: Sequence[AnyClientMethod],
        outcomes: Sequence[ModelOutcome],
    ) -> list[MethodRecord]:
        metrics = self._task.metrics(outcomes, [each.client for each in leaving])
        variants = self._party.agreement.variants
        own = {each.name: each.label for each in methods if each.name not in variants}
        records = [
            _method_record(each, method_label(each.name, own.get(each.name)), metrics[each.name])
            for each in outcomes
        ]
        return add_shares_of_retrain(records)

    def _require_feasible(
        self,
        name: str,
        leaving: Sequence[Member],
        remaining: Sequence[Member],
        methods: Sequence[AnyClientMethod],
    ) -> None:
        """Refuse a request that leaves no client, or whose sums reveal the updates of a few."""
        if not remaining:
            raise PolicyError(
                f"after request {name!r}, no client has rows left to train a model",
                "end the federation, or name fewer clients or rows",
            )
        sums = self._party.agreement.aggregation
        left = {each.client for each in remaining}
        retrains = any(is_retrain(method.name) for method in methods)
        if self._task.common_start and not retrains:  # clients that leave are in the method's sums
            left |= {each.client for each in leaving}
        if sums.kind != "none" and methods and len(left) < sums.min_contributors:
            raise PolicyError(
                f"after request {name!r}, only {len(left)} clients have rows left, but secure "
                f"aggregation needs {sums.min_contributors} (aggregation.min_contributors)",
                "add clients, or train a new model without the rows and without secure aggregation",
            )
        gone, repeated = {each.client for each in leaving}, list[tuple[str, ...]]()
        if self._task.common_start:
            repeated = [tuple(self._cohort.clients)]
        elif any(method.reads == REPEATED_SUMS for method in methods):
            repeated = list(self._task.clusters)
        few = [
            len(gone & {*each})
            for each in repeated
            if 0 < len(gone & {*each}) < sums.min_contributors
        ]
        if sums.kind != "none" and few:
            raise PolicyError(
                f"request {name!r} names rows of only {few[0]} of the clients that train together; "
                "the server receives sums of updates with these rows and without these rows, and "
                "from the sums it could compute the updates of these clients",
                f"name rows of at least {sums.min_contributors} clients that train together "
                "(aggregation.min_contributors)",
            )

    def _new_run(
        self,
        request: str,
        method: AnyClientMethod,
        original: Tensor,
        leaving: Sequence[Member],
        remaining: Sequence[Member],
    ) -> HorizontalRun:
        """A run of a method, before its first step."""

        def initial_model(stream: str) -> Tensor:
            return self._task.initial_model(stream + self._salt)

        needs = method.needs(self._party.agreement)
        return HorizontalRun(
            cohort=self._cohort,
            original=original,
            leaving=leaving,
            remaining=remaining,
            initial_model=initial_model,
            progress=self._party.progress,
            history=self._history() if needs.history and self._task.history_every else None,
            clusters=self._clusters() if needs.clusters else None,
            secret=partial(self._secret, f"{request} {method.name} secret"),
            journal=self._journal,
            salt="" if method.reads == REPEATED_SUMS else self._salt,
            sent=self._sent,
        )

    def _secret(self, name: str) -> bytes:
        """A secret of 32 bytes that a crash does not change.

        Two models that differ only by noise from two secrets would reveal the noise.
        """
        found = self._journal.once(name, str, lambda: self._party.entropy(32).hex())
        self._journal.flush()
        return bytes.fromhex(found)

    def _run(
        self, request: str, method: AnyClientMethod, new_run: RunFactory
    ) -> tuple[UnlearnedModel, ModelOutcome]:
        journal, name = self._journal, f"{request} {method.name}"
        work = partial(self._unlearn, name, method, new_run)
        found = journal.once(f"{request}: {method.name}", UnlearnedModel, work)
        self._cohort.switch_branch(found.branch, None)
        if found.diverged:
            return found, self._failed(method, found, found.diverged)
        try:
            scores = journal.once(f"{name} read", Scores, partial(self._evaluate, found.model))
        except Diverged as error:
            return found, self._failed(method, found, f"made an unusable model: {error}")
        if not all(isfinite(one.loss) for part in scores.values() for one in part.values()):
            return found, self._failed(method, found, "made a model with non-finite outputs")
        benchmark = self._benchmark_metrics(request, method.name, found.model)
        stages = {}
        if found.before_recovery is not None:
            before = partial(self._evaluate_before_recovery, found, found.before_recovery)
            stages["unlearned"] = journal.once(f"{name} unlearned", Scores, before)
        if self._task.revert_rounds:
            reverted = partial(self._evaluate_reverted, name, found, new_run)
            stages["reverted"] = journal.once(f"{name} reverted", Scores, reverted)
        cost = (method.guarantee.value, found.seconds, found.size)
        return found, ModelOutcome(
            method.name, *cost, scores, stages, found.rounds, benchmark_metrics=benchmark
        )

    def _unlearn(self, name: str, method: AnyClientMethod, new_run: RunFactory) -> UnlearnedModel:
        parent = None if method.from_scratch else self._branches.current
        branch = self._branches.start(name, parent)
        run = new_run()
        run.branch, run.check_conflicts = branch, self._conflict_check(name, run)
        if self._task.has_personal:
            run.recovery_branch = partial(self._branches.start, f"{name} recovery")
        return unlearn(method, run)

    def _failed(self, method: AnyClientMethod, found: UnlearnedModel, reason: str) -> ModelOutcome:
        """The outcome of a method without a model that can be evaluated."""
        self._party.progress.warn(f"{method.name} {reason}")
        cost = (method.guarantee.value, found.seconds, found.size)
        return ModelOutcome(method.name, *cost, no_scores(), rounds=found.rounds, diverged=reason)

    def _evaluate_before_recovery(self, found: UnlearnedModel, model: Tensor) -> Scores:
        """The metrics before recovery, with the clients' personal parameters of that time."""
        self._cohort.switch_branch(found.branch_before_recovery, None)
        try:
            scores = self._evaluate(model)
        except Diverged:  # the model was not usable before its recovery
            scores = no_scores()
        self._cohort.switch_branch(found.branch, None)
        return scores

    def _evaluate_reverted(self, name: str, found: UnlearnedModel, new_run: RunFactory) -> Scores:
        """The metrics after further rounds of the remaining clients (reverting test).

        The test shows whether forgotten knowledge returns.
        """
        rounds = self._task.revert_rounds
        round_plan = replace(self._task.training_plan(f"{name} revert"), rounds=rounds)
        further, run = Recovery(round_plan, TrainedState(found.model)), new_run()
        run.branch = self._branches.start(f"{name} reverted", found.branch)
        try:
            scores = self._evaluate(carry_out(further, run))
        except Diverged as error:
            self._party.progress.warn(f"{name}, reverting test: {error}")
            scores = no_scores()
        self._cohort.switch_branch(found.branch, None)
        return scores

    def _conflict_check(self, name: str, run: HorizontalRun) -> ConflictCheck | None:
        """A check of each step against the remaining clients; None: not agreed.

        The clients train one round for the check. Their personal parameters are trained on a branch
        of the check, so that the branch of the run keeps its own.
        """
        if not self._task.measures_conflicts:
            return None
        round_plan = self._task.training_plan(f"{name} conflicts")

        def check(number: int, before: Tensor, after: Tensor) -> tuple[int, float]:
            task = round_plan.task_at(number)
            if not self._task.has_personal:
                return count_conflicts(self._cohort, run.remaining, task, before, after)
            self._branches.start(f"{name} conflicts {number}", run.branch)
            found = count_conflicts(self._cohort, run.remaining, task, before, after)
            self._cohort.switch_branch(run.branch, None)
            return found

        return check

    def _members(self, request: str, model: Tensor) -> tuple[list[Member], list[Member]]:
        """The leaving and the remaining members, recorded: after a purge the rows are gone."""

        def ask() -> dict[str, list[str]]:
            leaving, remaining = request_members(self._cohort, request, model)
            return {
                "forgotten": [each.client for each in leaving],
                "retained": [each.client for each in remaining],
            }

        found = self._journal.once(f"{request} members", dict, ask)
        leaving = [Member(name, "forgotten") for name in found["forgotten"]]
        return leaving, [Member(name, "retained") for name in found["retained"]]

    def _sent(self) -> int:
        return self._party.traffic.total().size

    def _evaluate_original(self, request: str, model: Tensor) -> ModelOutcome:
        scores = self._journal.once(f"{request}: original", Scores, partial(self._evaluate, model))
        benchmark = self._benchmark_metrics(request, ORIGINAL, model)
        return ModelOutcome(ORIGINAL, None, 0.0, 0, scores, benchmark_metrics=benchmark)

    def _benchmark_metrics(self, request: str, name: str, model: Tensor) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            return self._task.benchmark_metrics(name, model)

        return self._journal.once(f"{request} {name} marks", dict, work)

    def _evaluate(self, model: Tensor) -> Scores:
        """The metrics of a model; those of all clients for a request after the run.

        Raises:
            AbsentClientError: after the run, a client does not reply: its rows would be missing in
                what the receipt states.
        """
        progress, kinds = self._party.progress, self._task.kinds
        progress.phase("measuring", len(kinds))
        found = evaluate_model(self._cohort, model, kinds, progress.step)
        every = {*self._cohort.clients}
        silent = {name for each in found.values() for name in every - each.keys()}
        if silent and self._later is not None:
            raise AbsentClientError(
                f"{', '.join(sorted(silent)[:10])} did not measure a model",
                "start these clients again",
            )
        return found | self._task.further_scores(self._cohort, model, self._leaving)


def _audit_level(methods: Sequence[AnyClientMethod]) -> AuditLevel | None:
    """How much a request measures; None if no method runs."""
    if not methods:
        return None
    compared = any(is_retrain(method.name) for method in methods)
    return AuditLevel.FULL if compared else AuditLevel.QUICK


def _requested_members(leaving: Sequence[Member], remaining: Sequence[Member]) -> RequestedMembers:
    return RequestedMembers(
        leaving=tuple(str(each) for each in leaving),
        remaining=len({each.client for each in remaining}),
    )


def _method_record(outcome: ModelOutcome, label: Label, metrics: Sequence[Metric]) -> MethodRecord:
    """The record of one model, without metrics of single questions."""
    known, measured = asdict(outcome), outcome.benchmark_metrics
    cost = MethodCost(seconds=outcome.seconds, size=outcome.size)
    return MethodRecord(
        name=outcome.name,
        **label._asdict(),
        guarantee=outcome.guarantee,
        cost=None if outcome.name == ORIGINAL else cost,
        figures=tuple(Figure(**each.plain()) for each in metrics),
        steps=tuple(Step(**each) for each in outcome.rounds),
        diverged=outcome.diverged,
        scores=known["scores"],
        stages=known["stages"],
        benchmark={name: each for name, each in measured.items() if name not in PER_QUESTION},
    )


def request_members(
    cohort: Cohort, request: str, model: Tensor
) -> tuple[list[Member], list[Member]]:
    """Return the leaving members and the remaining members of a request.

    The clients evaluate ``model``, ``[d]``, and report how many rows they evaluated. The metrics of
    ``model`` are ignored, so ``model`` can be any model. If a client does not
    reply, all clients are asked again, so that a lost client has time to reconnect.

    Raises:
        AbsentClientError: a client does not reply.
    """
    for _ in range(MEMBER_ATTEMPTS):
        gone = cohort.evaluate(cohort.clients, "forgotten", model)
        kept = cohort.evaluate(cohort.clients, "retained", model)
        silent = [name for name in cohort.clients if name not in gone or name not in kept]
        if not silent:
            leaving = [Member(name, "forgotten") for name, each in gone.items() if each.rows]
            return leaving, [Member(name, "retained") for name, each in kept.items() if each.rows]
        cohort.select_request(request)
    raise AbsentClientError(
        f"{', '.join(silent[:10])} did not report how many rows they must forget "
        f"for the request {request!r}",
        "start these clients again",
    )
