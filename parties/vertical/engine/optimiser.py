"""What each task descends with: an optimiser of a party's block, or none."""

from collections.abc import Sequence

import torch
from torch import nn

from configs.agreement import Agreement
from parties.common.json_codec import Tensors
from protocol import vfl_pb2


def optimiser(
    agreement: Agreement, task: vfl_pb2.Task, block: Sequence[nn.Parameter]
) -> torch.optim.Optimizer | None:
    """A new optimiser for ``task``; None where it has no such steps, or there is nothing to move.

    ICO-like corrects and D_u is learned again by plain SGD; all others descend as training does,
    at a rate of their own.
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


def _rate(agreement: Agreement, task: vfl_pb2.Task) -> float | None:
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


def momenta(present: torch.optim.Optimizer | None) -> Tensors:
    """What an optimiser remembers of every parameter."""
    found = {} if present is None else present.state_dict()["state"]
    return {
        f"{place}.{name}": tensor
        for place, each in found.items()
        for name, tensor in each.items()
        if tensor is not None
    }


def load_momenta(present: torch.optim.Optimizer | None, tensors: Tensors) -> None:
    """Have an optimiser remember it again."""
    if present is None:
        return
    state: dict[int, Tensors] = {}
    for key, tensor in tensors.items():
        place, _, name = key.partition(".")
        state.setdefault(int(place), {})[name] = tensor
    present.load_state_dict(present.state_dict() | {"state": state})
