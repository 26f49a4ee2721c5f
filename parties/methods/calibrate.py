"""The end of FedORA: a top that is as sure of held-out rows as the original's was."""

from typing import cast

import torch
from torch import Tensor

from configs.agreement import MlpTop
from models.tops import ConcatHead
from parties.active_network import ActiveNetwork
from parties.federation import Federation
from protocol import vfl_pb2
from unlearning.calibration import entropy_factor
from unlearning.objectives import entropy


def calibrate(federation: Federation, original: Tensor) -> float | None:
    """Make the top as sure of held-out rows as the original was; the factor of its logits.

    Rows of classes that lost some are left out where there are others: Retrain is less sure of
    them. None where it was not agreed, or where votes are the parties' own, out of the top's reach.
    """
    plan = federation.agreement.unlearning.fedora
    if not plan.calibrate or not isinstance(federation.agreement.top, MlpTop):
        return None
    return federation.once("calibration", float, lambda: _calibrate(federation, original))


def _calibrate(federation: Federation, original: Tensor) -> float:
    rows, labels = federation.rows, federation.labels
    outside = ~torch.isin(labels[rows.validation], torch.unique(labels[rows.forgotten]))
    chosen = outside if outside.any() else torch.ones_like(outside)
    present = federation.logits(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN)
    if federation.diverged:
        return 1.0
    target = float(entropy(original[chosen].double()).mean())
    factor = entropy_factor(present[chosen], target)
    top = cast(ActiveNetwork, federation.half.model.network).top
    cast(ConcatHead, top).sharpen(factor)
    return factor
