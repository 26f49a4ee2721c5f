"""What an unlearning method may order the passive parties to do, with which numbers."""

from dataclasses import dataclass
from math import ceil
from typing import Final, Self

from configs.agreement import VerticalAgreement
from configs.local_start import LocalStartSettings
from parties.vertical.engine.optimiser import (
    UpdateRule,
    joint_batch,
    joint_epochs,
    joint_rule,
    top_rule,
)
from parties.vertical.engine.rows import Sample

Start = tuple[UpdateRule, Sample | None]
FALLBACK: Final = LocalStartSettings(joint_epochs=0.0)  # of the fallback model


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimalLimits:
    """The largest numbers of a primal step."""

    step_size: float  # largest τ
    multiplier: float  # largest Ω
    dual_step: float | None = None  # largest σ of the literal dual; None if the dual is a scalar
    noise: float = 0.0  # largest standard deviation of the noise, as a multiple of τ


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The orders of a method in the task UNLEARN; a passive party refuses every other order."""

    # Update rules, each with its row set ``SAMPLE``, with which a copy is restored.
    starts: tuple[Start, ...] = ()
    # Update rules, each with its row set ``SAMPLE``, of models with fresh weights.
    fresh: tuple[Start, ...] = ()
    # For each number of rows of a shuffled batch, the largest number of an epoch.
    batches: tuple[tuple[int, int], ...] = ()
    # Numbers of rows of a batch in index order, besides the largest batch.
    passes: tuple[int, ...] = ()
    # Shares of D_r that such a batch may have, if no gradient follows.
    shares: tuple[float, ...] = ()
    # Pairs of shares: how far bottom models and the top model move to fresh values.
    shrinks: tuple[tuple[float, float], ...] = ()
    ascent: float = 0.0  # largest step along the held gradient
    # Limits of a primal step; None: the method takes no such step.
    primal: PrimalLimits | None = None
    proximal: float = 0.0  # weight ρ of the proximal term in a report of norms
    scales: bool = False  # whether the learning rate of a step may be scaled by up to 1
    # Settings of the trainings with a local start of fresh models on D_r.
    local: tuple[LocalStartSettings, ...] = ()

    @classmethod
    def of_training(
        cls,
        agreement: VerticalAgreement,
        learning_rate: float,
        epochs: int,
        shrinks: tuple[tuple[float, float], ...] = (),
    ) -> Self:
        """Training from a copy with the training's optimiser and batches, for some epochs."""
        rule = UpdateRule.like_training(agreement.training, learning_rate)
        batches = training_batches(agreement, epochs)
        return cls(starts=((rule, None),), batches=batches, shrinks=shrinks)

    @classmethod
    def of_local_start(cls, agreement: VerticalAgreement, plan: LocalStartSettings) -> Self:
        """Training of a fresh model on D_r with a local start."""
        rules = (top_rule(plan), joint_rule(plan, agreement))
        size, epochs = joint_batch(plan, agreement), ceil(joint_epochs(plan, agreement))
        sizes = [size] if agreement.training.overlap != "microbatch" else [size, size // 2]
        batches = tuple((each, epochs) for each in sizes if each and epochs)
        starts = tuple((rule, None) for rule in rules)
        return cls(starts=starts, batches=batches, local=(plan,), scales=True)


def training_orders(agreement: VerticalAgreement, *, continues: bool) -> list[Orders]:
    """The orders of the agreed training, in the task TRAIN.

    ``continues``: whether the training goes on from a kept version.
    """
    plan, found = agreement.training, fallback_orders(agreement)
    if continues:
        found.append(Orders.of_local_start(agreement, plan.continued))
    if plan.start == "local":
        return [*found, Orders.of_local_start(agreement, plan.local)]
    return [*found, Orders.of_training(agreement, plan.learning_rate, plan.epochs)]


def fallback_orders(agreement: VerticalAgreement) -> list[Orders]:
    """The local fit of the fallback model's bottoms, in the tasks TRAIN and UNLEARN."""
    return [Orders(local=(FALLBACK,))] if agreement.fits_fallback else []


def training_batches(agreement: VerticalAgreement, epochs: int) -> tuple[tuple[int, int], ...]:
    """The batches of ``epochs`` epochs in the agreed mode of overlap, in the form of ``Orders``."""
    plan = agreement.training
    sizes = [plan.batch, plan.batch // 2] if plan.overlap == "microbatch" else [plan.batch]
    return tuple((size, epochs) for size in sizes)
