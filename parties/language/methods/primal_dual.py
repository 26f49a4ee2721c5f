"""FedORA's constraint on forgotten texts, with one dual variable for all clients.

Notation of ``unlearning.llm.primal_dual``: S_u = mean score of the forgotten answers; the score of
an answer is its loss per token in nats, bounded by M; γ = threshold; Ω = dual variable; σ = step
size of Ω. Clients with texts to forget minimise L_r − Ω S_u; the other clients minimise L_r. After
every round, the server measures S_u of the new model and updates Ω by dual ascent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor

from configs.language import LanguageAgreement
from configs.language_unlearning import ForgettingSettings
from configs.table import Positive
from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.cohort import DIVERGED_HINT, require_finite
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask, RowMetrics, TextTask
from parties.horizontal.local.score_histogram import histogram_scores
from parties.horizontal.methods.method import StagedMethod
from parties.language.methods.loss_based import (
    model_slots,
    sample_members,
    unlearning_members,
)
from parties.language.methods.text_method import TextStages
from parties.report.method_names import Label
from parties.requests.driver import StepResult
from unlearning.llm.primal_dual import ScoreSum, dual_ascent, initial_dual
from unlearning.primal_dual import Dual

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
class PrimalDualState:
    """The state of the primal-dual method."""

    model: Tensor  # the model, ``[d]``
    dual: Dual  # the dual variable Ω, with its threshold γ and its maximum
    ceiling: float  # M, the bound of the scores


class PrimalDualSettings(ForgettingSettings):
    """FedORA for texts: a dual variable weights the forgotten texts until their loss is high."""

    # Loss γ, in nats per token, that the forgotten texts must reach; the loss of a text counts as
    # 1.5 γ at most. Absent: the loss of held-out texts at the clients of the request. The threshold
    # is at most 11, because clients report losses up to 11.8.
    threshold: Annotated[float, Field(gt=0, le=11)] | None = None
    step_size: Positive = 0.5  # dual step σ
    # Dual variable Ω before the first round.
    initial_multiplier: Annotated[float, Field(ge=0)] = 0.5
    max_multiplier: Positive = 10.0  # largest value of Ω
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts
    # Loss on the remaining texts: negative log-likelihood, or KL divergence to the trained model.
    retain: Literal["nll", "kl"] = "nll"

    @model_validator(mode="after")
    def _multiplier_begins_below_its_maximum(self) -> Self:
        if self.initial_multiplier > self.max_multiplier:
            raise ValueError(
                "initial_multiplier must not exceed max_multiplier (got "
                f"{self.initial_multiplier} and {self.max_multiplier})"
            )
        return self

    def check(self, agreement: LanguageAgreement) -> None:
        """Check that there are held-out texts if the threshold is computed from them.

        Raises:
            ValueError: there are no held-out texts.
        """
        requests = agreement.unlearn or agreement.requests.keep == "model"
        if self.threshold is None and not agreement.test_share and requests:
            raise ValueError(
                "the method primal-dual computes a threshold from held-out texts, but with "
                "test_share = 0 there are no held-out texts: set test_share = 0.05, or set "
                "unlearning.primal_dual.threshold"
            )


@dataclass(frozen=True, slots=True)
class PrimalDual(StagedMethod[PrimalDualState]):
    """Unlearning under the constraint S_u ≥ γ, with FedORA's dual variable Ω."""

    unlearn: RoundPlan  # plan of the unlearning rounds
    # Plan of the rounds after the unlearning, in which clients fine-tune on retained texts.
    recover: RoundPlan
    plan: PrimalDualSettings = field(default_factory=PrimalDualSettings)  # the other settings
    name: str = "primal-dual"  # name in the config and in reports
    settings: ClassVar = PrimalDualSettings
    label: ClassVar = Label("Primal-dual", "forgotten answers kept at the loss of unseen ones")
    state: ClassVar[type[PrimalDualState]] = PrimalDualState

    @classmethod
    def from_settings(cls, plan: PrimalDualSettings, rounds: TextStages) -> Self:
        """Build the method from its settings."""
        text = TextTask(objective="primal-dual", alpha=plan.alpha, retain=plan.retain)
        unlearn = rounds(plan.unlearn, "unlearn", text)
        return cls(unlearn, rounds(plan.recover, "recover"), plan)

    def tasks(self) -> list[LocalTask]:
        """Return the tasks with the largest Ω and M; M is unknown without a threshold."""
        text, threshold = self.unlearn.task.text, self.plan.threshold
        if text is None:
            return self.planned_tasks()
        ceiling = inf if threshold is None else CEILING_FACTOR * threshold
        text = replace(text, multiplier=self.plan.max_multiplier, max_loss=ceiling)
        return [replace(self.unlearn.task, text=text), self.recover.task]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of unlearning."""
        return self.unlearn.rounds

    def init(self, run: HorizontalRun) -> PrimalDualState:
        """Start from the original model, and determine γ and M.

        Raises:
            PolicyError: ``threshold`` is None, and no client has a held-out text.
            Diverged: the outputs of the original model are not finite.
        """
        threshold, ceiling = self._levels(run)
        dual = initial_dual(
            threshold, ceiling, self.plan.initial_multiplier, self.plan.max_multiplier
        )
        return PrimalDualState(run.original, dual, ceiling)

    def round(
        self, run: HorizontalRun, state: PrimalDualState, k: int
    ) -> StepResult[PrimalDualState]:
        """Run one round of unlearning, then update Ω.

        Raises:
            Diverged: the model or its outputs are not finite.
        """
        dual, ceiling, task = state.dual, state.ceiling, self.unlearn.task_at(k)
        if task.text is not None:
            text = replace(task.text, multiplier=dual.multiplier, max_loss=ceiling)
            task = replace(task, text=text)
        members = unlearning_members(run, self.plan.participants)
        chosen = sample_members(self.unlearn, k, members, run.leaving)
        mean = run.mean_update(chosen, task, model_slots(run, state.model, task))
        model = state.model + mean.delta.to(state.model.dtype)
        require_finite(model)
        leaving = [each.client for each in run.leaving]
        metrics = _require_finite_losses(run.cohort.evaluate(leaving, "forgotten", model))
        sums = _score_sums(metrics, ceiling)
        record = RoundRecord("unlearn", k, model, mean.loss, score=_mean(sums))
        record = replace(record, threshold=dual.threshold, multiplier=dual.multiplier)
        after = PrimalDualState(model, dual_ascent(dual, sums, self.plan.step_size), ceiling)
        return after, run.finish_round(record)

    def _levels(self, run: HorizontalRun) -> tuple[float, float]:
        """γ and M. The same score is measured on forgotten texts and on held-out texts.

        Without an agreed threshold, γ is the mean score of held-out texts under the original model,
        and M is ``CEILING_FACTOR`` times their mean loss.
        """
        if self.plan.threshold is not None:
            return self.plan.threshold, CEILING_FACTOR * self.plan.threshold
        clients = sorted({each.client for each in (*run.remaining, *run.leaving)})
        unseen = _require_finite_losses(run.cohort.evaluate(clients, "validation", run.original))
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
