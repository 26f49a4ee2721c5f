"""FedORA's constraint on forgotten texts, with one dual variable for all clients.

Notation of ``unlearning.llm.primal_dual``: S_u = mean score of the forgotten answers; the score of
an answer is its loss per token in nats, bounded by M; γ = threshold; Ω = dual variable; σ = step
size of Ω. Clients with texts to forget minimise L_r − Ω S_u; the other clients minimise L_r. After
every round, the server measures S_u of the new model and updates Ω by dual ascent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.cohort import DIVERGED_HINT, require_finite
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import RowMetrics
from parties.horizontal.local.score_histogram import histogram_scores
from parties.horizontal.methods.recover import recover
from parties.language.methods.loss_based import (
    Participants,
    model_slots,
    sample_members,
    unlearning_members,
)
from unlearning.guarantee import Guarantee
from unlearning.llm.primal_dual import ScoreSum, dual_ascent, initial_dual

NO_REFERENCE = (
    "the method 'primal-dual' computes its threshold from held-out texts, but no client has such "
    "texts"
)
REFERENCE_HINT = (
    "increase test_share, so that a client holds out two or more texts, or set "
    "unlearning.primal_dual.threshold = 4.0"
)
CEILING_FACTOR = 1.5  # M / γ: the threshold can be reached, and no answer counts for much more


@dataclass(frozen=True, slots=True)
class PrimalDual:
    """Unlearning under the constraint S_u ≥ γ, with FedORA's dual variable Ω.

    Attributes:
        unlearn: plan of the unlearning rounds.
        recover: plan of the rounds after the unlearning, in which clients fine-tune on retained
            texts.
        step_size: σ, the step size with which Ω is updated.
        initial_multiplier: Ω before the first round.
        max_multiplier: upper bound of Ω.
        threshold: γ, the smallest allowed S_u. If ``threshold`` is None, γ is the mean score of
            held-out texts under the original model. The bound M of the scores is then
            ``CEILING_FACTOR`` times the mean loss of these texts.
        participants: all clients, or only the clients with texts to forget.
        name: name in the config and in reports.
        guarantee: how strong the method's guarantee is, such as exact or heuristic.
        needs_single_updates: whether the method reads updates of single clients.
    """

    unlearn: RoundPlan
    recover: RoundPlan
    step_size: float
    initial_multiplier: float
    max_multiplier: float
    threshold: float | None = None
    participants: Participants = "all"
    name: str = "primal-dual"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Number of rounds, including the rounds of recovery."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: ``threshold`` is None, and no client has a held-out text.
            Diverged: the model or its outputs are not finite.
        """
        model = context.original
        threshold, ceiling = self._levels(context)
        dual = initial_dual(threshold, ceiling, self.initial_multiplier, self.max_multiplier)
        leaving = [each.client for each in context.leaving]
        members = unlearning_members(context, self.participants)
        for number in range(self.unlearn.rounds):
            task = self.unlearn.task_at(number)
            if task.text is not None:
                text = replace(task.text, multiplier=dual.multiplier, max_loss=ceiling)
                task = replace(task, text=text)
            slots = model_slots(context, model, task)
            chosen = sample_members(self.unlearn, number, members, context.leaving)
            mean = context.cohort.mean_update(chosen, task, slots)
            model = model + mean.delta.to(model.dtype)
            require_finite(model)
            metrics = _require_finite_losses(context.cohort.evaluate(leaving, "forgotten", model))
            sums = _score_sums(metrics, ceiling)
            record = RoundRecord("unlearn", number, model, mean.loss, score=_mean(sums))
            context.record_round(replace(record, threshold=threshold, multiplier=dual.multiplier))
            dual = dual_ascent(dual, sums, self.step_size)
        return recover(context, model, self.recover)

    def _levels(self, context: UnlearningContext) -> tuple[float, float]:
        """γ and M. The same score is measured on forgotten texts and on held-out texts."""
        if self.threshold is not None:
            return self.threshold, CEILING_FACTOR * self.threshold
        clients = sorted({each.client for each in (*context.remaining, *context.leaving)})
        unseen = _require_finite_losses(
            context.cohort.evaluate(clients, "validation", context.original)
        )
        rows = sum(each.rows for each in unseen.values())
        if not rows:
            raise PolicyError(NO_REFERENCE, REFERENCE_HINT)
        ceiling = CEILING_FACTOR * sum(each.loss for each in unseen.values()) / rows
        together = sum(_score_sums(unseen, ceiling), ScoreSum())
        return together.total / together.rows, ceiling


def _require_finite_losses(found: Mapping[str, RowMetrics]) -> Mapping[str, RowMetrics]:
    """Return the metrics if all losses are finite: histograms show a NaN as the smallest score.

    Raises:
        Diverged: a loss is not finite.
    """
    wild = sorted(name for name, each in found.items() if not isfinite(each.loss))
    if wild:
        raise Diverged(
            f"the model's outputs are not finite for the texts of {', '.join(wild[:10])}",
            DIVERGED_HINT,
        )
    return found


def _mean(sums: Sequence[ScoreSum]) -> float | None:
    """S_u; None if no client measured a forgotten text."""
    together = sum(sums, ScoreSum())
    return together.total / together.rows if together.rows else None


def _score_sums(found: Mapping[str, RowMetrics], ceiling: float) -> list[ScoreSum]:
    """The sum of each client's scores, each score at most the ceiling, from score histograms.

    A histogram has φ = log p − log(1 − p) of an answer's probability p, and
    −log p = log(1 + exp(−φ)).
    """
    sums = []
    for each in found.values():
        scores = np.minimum(np.logaddexp(0.0, -histogram_scores(each.histogram)), ceiling)
        sums.append(ScoreSum(float(scores.sum()), each.rows))
    return sums
