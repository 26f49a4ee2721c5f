"""The end of FedORA: a top that is as sure of held-out rows as the original's was."""

from functools import partial
from typing import cast

import torch
from torch import Tensor

from configs.agreement import MlpTop
from models.tops import ConcatHead
from parties.vertical.engine.active_network import ActiveNetwork
from parties.vertical.engine.split_model import Federation
from protocol import vfl_pb2
from unlearning.calibration import calibration_factor


def calibrate(federation: Federation, original: Tensor) -> float | None:
    """Make the top as sure of held-out rows as the original was; the factor of its logits.

    Only rows of classes that lost none are looked at, since of the others Retrain is less sure than
    the original. None where there are none, where it was not agreed, or where votes are the
    parties' own, out of the top's reach.
    """
    plan, rows, labels = federation.agreement.unlearning.fedora, federation.rows, federation.labels
    spared = ~torch.isin(labels[rows.validation], torch.unique(labels[rows.forgotten]))
    if not (plan.calibrate and spared.any() and isinstance(federation.agreement.top, MlpTop)):
        return None
    work = partial(_calibrate, federation, original, spared)
    return federation.once("calibration", float, work)


def _calibrate(federation: Federation, original: Tensor, chosen: Tensor) -> float:
    present = federation.logits(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN)
    if federation.diverged:
        return 1.0
    margin = federation.agreement.unlearning.fedora.margin
    factor = calibration_factor(present[chosen], original[chosen], margin)
    top = cast(ActiveNetwork, federation.half.model.network).top
    cast(ConcatHead, top).sharpen(factor)
    return factor
