"""FedRecovery: subtract the leaving client's contribution to each stored round, then add noise.

Notation as in ``unlearning.horizontal.baselines``. The standard deviation of the noise is
proportional to the norm of the subtracted vector. This norm is measured, and no upper bound of the
norm is known in advance. Without such a bound, the noise gives no certificate, so the guarantee of
the method is heuristic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from configs.horizontal import HorizontalAgreement
from configs.table import Fraction, Positive
from parties.common.errors import PolicyError
from parties.common.shared_randomness import normal_draws
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.history import History
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import Needs, StepResult
from unlearning.horizontal.baselines import (
    recovery_noise_scale,
    recovery_residual,
    recovery_weights,
)


class FedRecoverySettings(ClientMethodSettings):
    """FedRecovery (Zhang et al. 2023); needs saved updates, so history.every must be above 0."""

    recover: StageSettings = StageSettings()  # rounds of recovery
    # ε of the noise; absent: no noise. The scale of the noise follows from the norm of the removed
    # contribution. The noise gives no guarantee, because this norm has no bound known in advance.
    epsilon: Positive | None = None
    beta: Fraction = 1e-5  # failure probability β of the noise

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that the updates of all rounds are saved, and that requests name whole clients.

        Raises:
            ValueError: a rule is broken; the message names the key to change.
        """
        agreement.require_history("fedrecovery")
        if any(each.leaver is None for each in agreement.unlearn):
            raise ValueError(
                "fedrecovery can only remove whole clients: every request must have the key "
                "'client', and must not have the key 'classes' or a 'fraction' below 1"
            )


@dataclass(frozen=True, slots=True)
class FedRecovery(StagedMethod[ModelState]):
    """The server corrects the model in one step; then the remaining clients run recovery."""

    recover: RoundPlan  # plan of the recovery rounds
    plan: FedRecoverySettings = field(default_factory=FedRecoverySettings)  # the other settings
    name: str = "fedrecovery"
    label: ClassVar = Label(
        "FedRecovery", "the client’s part of stored rounds subtracted, with noise"
    )
    settings: ClassVar = FedRecoverySettings
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: FedRecoverySettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        return cls(rounds(plan.recover, "recover"), plan)

    def needs(self, _agreement: object) -> Needs:
        """Return that the method needs the stored rounds."""
        return Needs(history=True)

    def count(self, _run: HorizontalRun) -> int:
        """Return 1."""
        return 1

    def round(self, run: HorizontalRun, state: ModelState, k: int) -> StepResult[ModelState]:
        """Subtract the leaving clients' contribution, and add noise.

        Raises:
            PolicyError: the history contains no training round.
        """
        if run.history is None or not len(run.history):
            raise PolicyError(
                "the method 'fedrecovery' needs stored training rounds, but no round is stored",
                "set history.every = 1",
            )
        gone = {each.client for each in run.leaving}
        squares = torch.tensor([_square(found) for found in _rounds(run.history)])
        # FedRecovery (Zhang et al. 2023): w̄ = w_t − Σ_i p_i δ_i. A stored update is −η ∇f, so η is
        # 1 here.
        taken = torch.zeros_like(state.model)
        shares = recovery_weights(squares)
        for share, found in zip(shares, _rounds(run.history), strict=True):
            taken += share * _residual(found, gone)
        model = state.model - taken
        if self.plan.epsilon is not None:
            scale = recovery_noise_scale(
                self.plan.epsilon, self.plan.beta, float(taken.double().norm())
            )
            # The server's secret seeds the noise: clients know the seed of the agreement, and the
            # generators of torch use only 32 bits of a seed.
            noise = torch.from_numpy(normal_draws(run.secret(), len(model)))
            model = model + (scale * noise).to(model.dtype)
        return ModelState(model), run.finish_round(RoundRecord("unlearn", k, model))


def _rounds(history: History) -> Iterator[Mapping[Member, LocalUpdate]]:
    """The updates of each stored round that has any.

    Earlier requests delete the updates of the clients that left, of some rounds all.
    """
    return (found for _, found in history.rounds() if found)


def _changes(found: Mapping[Member, LocalUpdate]) -> tuple[Tensor, Tensor]:
    """The updates of a round's clients, ``[clients, d]``, and their rows, ``[clients]``."""
    changes = torch.stack([each.delta for each in found.values()])
    return changes, changes.new_tensor([each.rows for each in found.values()])


def _square(found: Mapping[Member, LocalUpdate]) -> float:
    """The squared norm of the mean update."""
    changes, rows = _changes(found)
    return float((rows / rows.sum() @ changes).square().sum())


def _residual(found: Mapping[Member, LocalUpdate], gone: set[str]) -> Tensor:
    """The part of the leaving clients in a round, ``[d]``."""
    changes, rows = _changes(found)
    here = [place for place, member in enumerate(found) if member.client in gone]
    if not here or len(here) == len(found):
        return torch.zeros_like(changes[0])
    return recovery_residual(-changes, rows, here, 1.0)
