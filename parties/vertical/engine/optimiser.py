"""The optimiser of each task, for one party's parameters."""

from collections.abc import Sequence

import torch
from torch import nn

from configs.agreement import VerticalAgreement
from parties.common.json_codec import Tensors
from protocol import vfl_pb2


def build_optimiser(
    agreement: VerticalAgreement, task: vfl_pb2.Task, block: Sequence[nn.Parameter]
) -> torch.optim.Optimizer | None:
    """A new optimiser for ``task``.

    ICO-like's correction steps and the relearning attack use plain SGD. Every other task uses the
    optimiser of training, with a separate learning rate per task.

    Args:
        agreement: sets the optimiser and the learning rates.
        task: the task.
        block: the parameters, each of any shape.

    Returns:
        The optimiser; None if the task takes no optimiser steps, or if ``block`` is empty.
    """
    plan = agreement.training
    rate = _rate(agreement, task)
    if rate is None or not block or (task, plan.optimiser) == (vfl_pb2.TRAIN, "newton-cg"):
        return None
    if task in (vfl_pb2.CORRECT, vfl_pb2.RELEARN):
        return torch.optim.SGD(block, rate)
    if plan.optimiser == "sgd":
        return torch.optim.SGD(block, rate, momentum=plan.momentum, weight_decay=plan.weight_decay)
    return torch.optim.Adam(block, rate, weight_decay=plan.weight_decay, fused=True)


def _rate(agreement: VerticalAgreement, task: vfl_pb2.Task) -> float | None:
    plan = agreement.unlearning
    rates = {
        vfl_pb2.TRAIN: agreement.training.learning_rate,
        vfl_pb2.REFERENCE: plan.fedora.reference_learning_rate,
        vfl_pb2.FINE_TUNE: plan.fine_tune.learning_rate,
        vfl_pb2.RELABEL: plan.relabel.learning_rate,
        vfl_pb2.SHRINK_PERTURB: plan.shrink_perturb.learning_rate,
        vfl_pb2.TOP_ONLY: plan.top_only.learning_rate,
        vfl_pb2.CORRECT: plan.ico_like.learning_rate,
    }
    if plan.fedora.primal == "optimiser":
        rates[vfl_pb2.UNLEARN] = plan.fedora.first_step(agreement.training.learning_rate)
    if agreement.evaluation.relearn is not None:
        rates[vfl_pb2.RELEARN] = agreement.evaluation.relearn.learning_rate
    return rates.get(task)


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
