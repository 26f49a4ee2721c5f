"""The optimiser of a task: what it descends with, where it descends at all."""

from collections.abc import Sequence

import torch
from torch import nn

from configs.agreement import Agreement
from protocol import vfl_pb2

_DESCENDS = (vfl_pb2.TRAIN, vfl_pb2.REFERENCE, vfl_pb2.FINE_TUNE)


def optimiser(
    agreement: Agreement, task: vfl_pb2.Task, block: Sequence[nn.Parameter]
) -> torch.optim.Optimizer | None:
    """A new one for ``block``; None where the task needs none."""
    plan = agreement.training
    solved = plan.optimiser == "newton-cg" and task == vfl_pb2.TRAIN
    if task not in _DESCENDS or not block or solved:
        return None
    rates = {
        vfl_pb2.FINE_TUNE: agreement.unlearning.fine_tune.learning_rate,
        vfl_pb2.REFERENCE: agreement.unlearning.fedora.reference_learning_rate,
    }
    rate = rates.get(task, plan.learning_rate)
    if plan.optimiser == "sgd":
        return torch.optim.SGD(block, rate, momentum=plan.momentum, weight_decay=plan.weight_decay)
    return torch.optim.Adam(block, rate, weight_decay=plan.weight_decay)
