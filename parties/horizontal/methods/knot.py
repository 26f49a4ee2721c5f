"""Knot: clusters train separately, and only the leaving client's cluster is retrained.

The leaving client's cluster starts again from the snapshot before the client's first round, and
trains without the client. The client never influenced the other clusters (Su and Li 2023). Rounds
are synchronous here, but asynchronous in the paper. The seed assigns clients to clusters. The paper
assigns clients by training time and by similarity of updates. The paper's assignment depends on the
clients' rows. The leaving client's rows would therefore influence all clusters through the
assignment, and retraining one cluster would not remove this influence. The final model is the mean
of the clusters' models. No cluster's model is selected by evaluation, because such a selection
could depend on the leaving client's rows. The mean model is poor if the clients' data differ much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from torch import Tensor

from configs.client_unlearning import Reads
from parties.common.errors import PolicyError
from parties.horizontal.engine.clusters import (
    ClusterHistory,
    ClusterStore,
    SnapshotWriter,
    mean_model,
)
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, RoundSource, run_round
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.engine.training_plan import ORIGINAL, network_training_plan
from parties.horizontal.methods.method import ClientMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import JsonObject, Needs, StepResult, Stop
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class RetrainedCluster:
    """A cluster that is trained again."""

    number: int  # number of the cluster
    history: ClusterHistory  # the snapshots, and the model after the last round
    next: int  # number of the next round


@dataclass(frozen=True, slots=True)
class KnotState:
    """The state of Knot."""

    # The model after the last round, ``[d]``; after the last step, the mean of all clusters'
    # models.
    model: Tensor
    waiting: list[int]  # numbers of the clusters that are trained again later
    # The affected clusters without members, and the clusters that are trained again; only the last
    # one can have rounds left.
    begun: list[RetrainedCluster] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Knot(ClientMethod[KnotState]):
    """Repeats the training rounds of those clusters that contain leaving clients.

    The method guarantees exact unlearning. If all clients of a cluster take part in every round,
    the unlearned model equals, bit for bit, a model that is trained with the same clusters but
    without the leaving clients from the start. If each round selects only some clients, the
    unlearned model can differ from a model that is trained without the leaving clients, because
    the rounds before the snapshot selected their clients from all clients of the cluster.
    """

    round_plan: RoundPlan  # plan of the training rounds
    name: str = "knot"
    label: ClassVar = Label("Knot", "the client’s cluster trains again from a snapshot")
    guarantee: ClassVar[Guarantee] = Guarantee.EXACT
    state: ClassVar[type[KnotState]] = KnotState
    reads: ClassVar[Reads] = "repeated sums"

    @classmethod
    def from_settings(cls, _plan: None, rounds: Stages) -> Self:
        """Build the method from the settings of the training."""
        return cls(network_training_plan(rounds.agreement, ORIGINAL))

    def needs(self, _agreement: object) -> Needs:
        """Return that the method needs the stored models of the clusters."""
        return Needs(clusters=True)

    def count(self, _run: HorizontalRun) -> None:
        """None: the number of rounds depends on the round at which the retraining starts."""
        return

    def init(self, run: HorizontalRun) -> KnotState:
        """Find the clusters that contain leaving clients.

        Raises:
            PolicyError: the training had no clusters.
        """
        gone, clusters = _gone(run), _clusters(run)
        affected = [n for n, history in clusters if history.snapshot_before(gone) is not None]
        waiting = [number for number in affected if _members(run, number)]
        empty = [_begin(run, number) for number in affected if number not in waiting]
        return KnotState(run.original, waiting, empty)

    def step(self, run: HorizontalRun, state: KnotState, _k: int) -> StepResult[KnotState]:
        """Run one round of one cluster."""
        waiting, begun = state.waiting, state.begun
        if not begun or not self._rounds_left(begun[-1]):
            if not waiting:
                return Stop()
            waiting, begun = waiting[1:], [*begun, _begin(run, waiting[0])]
        *before, present = begun
        history, number = present.history, present.next
        kept = SnapshotWriter(list(history.snapshots))
        source = RoundSource(run, _members(run, present.number), writer=kept)
        start = _require_model(history)
        done = run_round(source, self.round_plan, number, start, self.round_plan.rule)
        record = run.finish_round(RoundRecord("unlearn", number, done.model, done.mean.loss))
        history = ClusterHistory(tuple(kept.snapshots), done.model)
        after = RetrainedCluster(present.number, history, number + 1)
        return KnotState(done.model, waiting, [*before, after]), record

    def finish(
        self, run: HorizontalRun, state: KnotState, _records: Sequence[JsonObject], _stop: Stop
    ) -> KnotState:
        """Store the new histories, and return the mean of all clusters' models.

        Raises:
            PolicyError: no client remains.
        """
        clusters = _clusters(run)
        # An earlier checkpoint would read the old histories, which do not exist any more.
        run.journal.save()
        for each in state.begun:
            clusters.write(each.number, each.history)
        models = [history.model for _, history in clusters if history.model is not None]
        if not models:
            raise PolicyError(
                "the method 'knot' needs at least one remaining client, but no client remains"
            )
        return replace(state, model=mean_model(models))

    def _rounds_left(self, cluster: RetrainedCluster) -> bool:
        return cluster.history.model is not None and cluster.next < self.round_plan.rounds


def _clusters(run: HorizontalRun) -> ClusterStore:
    """The stored clusters; raises ``PolicyError`` if the training had no clusters."""
    if run.clusters is None:
        raise PolicyError(
            "the method 'knot' needs a separate model of each cluster, but all clients were "
            "trained together",
            "set training.clusters = 5",
        )
    return run.clusters


def _gone(run: HorizontalRun) -> frozenset[str]:
    """Names of the leaving clients."""
    return frozenset(each.client for each in run.leaving)


def _members(run: HorizontalRun, number: int) -> list[Member]:
    """The remaining members of a cluster.

    A client that keeps all its rows trains with the random stream of the training.
    """
    gone, group = _gone(run), _clusters(run).groups[number]
    here = [each for each in run.remaining if each.client in group]
    return [each if each.client in gone else Member(each.client) for each in here]


def _begin(run: HorizontalRun, number: int) -> RetrainedCluster:
    """A cluster at the snapshot before any leaving client; without a model if it is empty."""
    trained = _clusters(run).read(number)
    start = trained.snapshot_before(_gone(run))
    first = start.number if start else 0
    kept = tuple(each for each in trained.snapshots if each.number < first)
    model = start.model if start and _members(run, number) else None
    return RetrainedCluster(number, ClusterHistory(kept, model), first)


def _require_model(history: ClusterHistory) -> Tensor:
    """The model of a cluster that has members, ``[d]``."""
    if history.model is None:
        raise PolicyError("a cluster with remaining clients has no model")
    return history.model
