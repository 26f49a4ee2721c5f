"""A training with a local start: the fit of a bottom model to codes, and the update rules."""

from dataclasses import dataclass
from math import ceil, cos, pi
from typing import Literal

from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.local_start import LocalStartSettings
from models.codes import projection_codes, svd_codes
from parties.common.shared_randomness import torch_seed
from parties.vertical.engine.optimiser import UpdateRule

STEPS = 16  # of one command: a party answers after at most so many steps


@dataclass(frozen=True, slots=True)
class LocalFit:
    """The fit of a bottom model to codes."""

    codes: Literal["svd", "projection"]  # kind of the codes
    epochs: int  # epochs over the rows of the fit
    batch: int  # rows of a step

    @classmethod
    def agreed(
        cls, plan: LocalStartSettings, agreement: VerticalAgreement, rows: int
    ) -> "LocalFit | None":
        """The fit on ``rows`` rows by these settings; None if the bottom models are fixed."""
        if plan.codes == "fixed":
            return None
        return cls(plan.codes, plan.epochs_of_fit(rows), agreement.training.batch)

    def steps_of_epoch(self, rows: int) -> int:
        """The number of steps of one epoch over ``rows`` rows."""
        return ceil(rows / self.batch)

    def steps(self, rows: int) -> int:
        """The number of steps of the whole fit on ``rows`` rows."""
        return self.epochs * self.steps_of_epoch(rows)

    def code(self, features: Tensor, width: int, seed: int) -> Tensor:
        """The codes of ``features``, [rows, ...], of one party: [rows, width]."""
        codes = svd_codes if self.codes == "svd" else projection_codes
        return codes(features, width, seed)


def fit_rule(plan: LocalStartSettings) -> UpdateRule:
    """The update rule of the local fit."""
    return UpdateRule("adam", plan.fit_learning_rate)


def top_rule(plan: LocalStartSettings) -> UpdateRule:
    """The update rule of the top model's epochs."""
    return UpdateRule("adam", plan.top_learning_rate)


def first_rule(plan: LocalStartSettings) -> UpdateRule:
    """The update rule with which the parties initialise their models."""
    return top_rule(plan) if plan.codes == "fixed" else fit_rule(plan)


def joint_rule(plan: LocalStartSettings, agreement: VerticalAgreement) -> UpdateRule:
    """The update rule of the joint epochs: the training's, with another learning rate."""
    training = agreement.training
    return UpdateRule.like_training(training, plan.joint_rate * training.learning_rate)


def joint_batch(plan: LocalStartSettings, agreement: VerticalAgreement) -> int:
    """The number of rows of a joint step."""
    return max(1, round(plan.joint_batch * agreement.training.batch))


def code_seed(agreement: VerticalAgreement, stream: str, party: str) -> int:
    """The seed of a party's codes, for the random stream of the model's weights."""
    return torch_seed(agreement.seed, "codes", stream, party)


def flat_then_cosine(step: int, steps: int) -> float:
    """Factor of the learning rate in ``step``, from 0: 1, then in the second half a cosine to 0."""
    after_middle = max(0.0, 2 * step / steps - 1)
    return (1 + cos(pi * after_middle)) / 2


def cosine(step: int, steps: int, floor: float) -> float:
    """Factor of the learning rate in ``step``, from 0: a cosine from 1 to ``floor``."""
    return floor + (1 - floor) * (1 + cos(pi * step / steps)) / 2
