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

from dataclasses import dataclass

from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.clusters import mean_model, train_cluster
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, RoundResult
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Knot:
    """Repeats the training rounds of those clusters that contain leaving clients.

    The method guarantees exact unlearning. If all clients of a cluster take part in every round,
    the unlearned model equals, bit for bit, a model that is trained with the same clusters but
    without the leaving clients from the start. If each round selects only some clients, the
    unlearned model can differ from a model that is trained without the leaving clients, because
    the rounds before the snapshot selected their clients from all clients of the cluster.

    Attributes:
        round_plan: plan of the training rounds.
    """

    round_plan: RoundPlan
    name: str = "knot"
    guarantee: Guarantee = Guarantee.EXACT
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int | None:
        """None: the number of rounds depends on the round at which the retraining starts."""
        return None

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: the training had no clusters, or no client remains.
        """
        if context.clusters is None:
            raise PolicyError(
                "the method 'knot' needs a separate model of each cluster, but all clients were "
                "trained together",
                "set training.clusters = 5",
            )

        def watch(each: RoundResult) -> None:
            context.record_round(RoundRecord("unlearn", each.number, each.model, each.mean.loss))

        gone, models = frozenset(each.client for each in context.leaving), []
        for number, trained in context.clusters:
            snapshot, history = trained.snapshot_before(gone), trained
            if snapshot is not None:
                members = self._members(context, context.clusters.groups[number], gone)
                history = train_cluster(
                    context.cohort, trained, snapshot, members, self.round_plan, watch
                )
                context.clusters.write(number, history)
            if history.model is not None:
                models.append(history.model)
        if not models:
            raise PolicyError(
                "the method 'knot' needs at least one remaining client, but no client remains"
            )
        return mean_model(models)

    def _members(
        self, context: UnlearningContext, group: tuple[str, ...], gone: frozenset[str]
    ) -> list[Member]:
        """The remaining members of a cluster.

        A client that keeps all its rows trains with the random stream of the training.
        """
        here = [each for each in context.remaining if each.client in group]
        return [each if each.client in gone else Member(each.client) for each in here]
