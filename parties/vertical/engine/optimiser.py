"""The update rule of a task, and the optimiser that it names, for one party's parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from configs.agreement import TrainingSettings, VerticalAgreement
from configs.local_start import LocalStartSettings
from parties.common.json_codec import Tensors

Kind: TypeAlias = Literal["plain", "adam", "sgd"]


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How every party updates its part of the model."""

    optimiser: Kind = "plain"  # ``adam`` or ``sgd``; ``plain``: every step names its own size
    learning_rate: float = 0.0  # η; 0 for ``plain``
    momentum: float = 0.0  # momentum of ``sgd``
    weight_decay: float = 0.0  # weight decay
    # ρ, weight of FedORA's proximal term, which keeps the parameters near the parameters at the
    # start.
    proximal: float = 0.0

    @classmethod
    def like_training(cls, training: TrainingSettings, learning_rate: float) -> "UpdateRule":
        """The optimiser of the training, with the given learning rate."""
        if training.optimiser == "sgd":
            return cls("sgd", learning_rate, training.momentum, training.weight_decay)
        return cls("adam", learning_rate, 0.0, training.weight_decay)


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


def joint_epochs(plan: LocalStartSettings, agreement: VerticalAgreement) -> float:
    """The number of joint epochs."""
    return plan.epochs_together(perceptrons=agreement.only_perceptrons)


def embedding_passes(agreement: VerticalAgreement) -> float:
    """How often the agreed training sends the embedding of each of its rows.

    With random weights, that is once an epoch; with a local start, once for the top model and once
    for each joint epoch.
    """
    training = agreement.training
    if training.start == "random":
        return training.epochs
    return 1 + joint_epochs(training.local, agreement)


def flat_then_cosine(step: int, steps: int) -> float:
    """Factor of the learning rate in ``step``, from 0: 1, then in the second half a cosine to 0."""
    after_middle = max(0.0, 2 * step / steps - 1)
    return (1 + cos(pi * after_middle)) / 2


def cosine(step: int, steps: int, floor: float) -> float:
    """Factor of the learning rate in ``step``, from 0: a cosine from 1 to ``floor``."""
    return floor + (1 - floor) * (1 + cos(pi * step / steps)) / 2


def rising_cosine(step: int, steps: int, floor: float, rise: float) -> float:
    """Factor of the learning rate in ``step``, from 0: ``cosine``, smaller in the first steps.

    In the part ``rise`` of the steps, another factor rises from 0 to 1. Adam's first steps have the
    full rate in every parameter, whatever the gradient is, and would undo a good start.
    """
    return cosine(step, steps, floor) * min(1.0, (step + 1) / max(1.0, rise * steps))


def build_optimiser(
    rule: UpdateRule | None, block: Sequence[Tensor]
) -> torch.optim.Optimizer | None:
    """A new optimiser for ``block``, parameters of any shape.

    The result is None if ``rule`` names no optimiser, or if ``block`` is empty.
    """
    if rule is None or rule.optimiser == "plain" or not block:
        return None
    rate, decay = rule.learning_rate, rule.weight_decay
    if rule.optimiser == "sgd":
        return torch.optim.SGD(block, rate, momentum=rule.momentum, weight_decay=decay)
    return torch.optim.Adam(block, rate, weight_decay=decay, fused=True)


def step_with_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """One step of an optimiser with the learning rate ``rate``."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def optimiser_tensors(optimiser: torch.optim.Optimizer | None) -> Tensors:
    """The state tensors of an optimiser, by parameter number and name.

    Each tensor has the shape of its parameter or is a scalar.
    """
    state = {} if optimiser is None else optimiser.state_dict()["state"]
    return {
        f"{place}.{name}": tensor
        for place, each in state.items()
        for name, tensor in each.items()
        if tensor is not None
    }


def load_optimiser_tensors(optimiser: torch.optim.Optimizer | None, tensors: Tensors) -> None:
    """Load ``tensors`` from ``optimiser_tensors``: each has a parameter's shape or is a scalar."""
    if optimiser is None:
        return
    state: dict[int, Tensors] = {}
    for key, tensor in tensors.items():
        place, _, name = key.partition(".")
        state.setdefault(int(place), {})[name] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
