"""Backdoor audit: the leaving client puts a trigger of 3x3 pixels into its training rows.

Notation: y = the class, C = number of classes. A row with the trigger has the label (y + shift) mod
C (FedOSD, paper 001, §4.1), or one fixed class. A pattern is a mask of 3x3 pixels in rows and
columns -4 to -2 of an image, counted from the end. The trigger sets the pixels where the mask is 1
to a grey value, in all channels, and leaves all other pixels as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from configs.horizontal import HorizontalAgreement, TriggerSettings
from parties.common.errors import PolicyError
from parties.common.shared_randomness import derive_key, permutation, torch_seed
from parties.horizontal.local.rows import ClientData, Rows

_PLACE = slice(-4, -1)


def plant_trigger(agreement: HorizontalAgreement, client: str, client_data: ClientData) -> None:
    """Add the trigger of each request to a client's data.

    At every client, the trigger is added to a copy of the test rows. At the leaving client, the
    trigger is also added to some training rows.

    Raises:
        PolicyError: the rows are not images.
    """
    for request in agreement.unlearn:
        if request.trigger is None:
            continue
        client_data.stamped = apply_trigger(agreement, request.trigger, client_data.test)
        if request.client == client:
            _poison(agreement, request.name, request.trigger, client_data)


def _poison(
    agreement: HorizontalAgreement, name: str, trigger: TriggerSettings, client_data: ClientData
) -> None:
    rows, secret = client_data.train, derive_key(agreement.seed, "trigger", name)
    chosen = np.sort(permutation(secret, len(rows))[: round(trigger.share * len(rows))])
    places, stamped = torch.from_numpy(chosen), apply_trigger(agreement, trigger, rows.take(chosen))
    if trigger.everywhere:
        client_data.stamped_train = apply_trigger(agreement, trigger, rows)
    inputs, labels = rows.inputs.clone(), rows.labels.clone()
    inputs[places], labels[places] = stamped.inputs, stamped.labels
    client_data.train, client_data.planted = Rows(inputs, labels), chosen


def apply_trigger(agreement: HorizontalAgreement, trigger: TriggerSettings, rows: Rows) -> Rows:
    """Return a copy of ``rows`` with the trigger, and with the labels that the trigger requires.

    Raises:
        PolicyError: the rows are not images.
    """
    if rows.inputs.dim() != 4:
        raise PolicyError(
            "a request has a trigger, which is a pattern of pixels, but the rows are not images",
            "remove the key 'trigger' from the request, or use image data",
        )
    inputs, pattern = rows.inputs.clone(), _PATTERNS[trigger.pattern]
    # FedOSD's code: x ← (1 − mask) x + mask · grey.
    inputs[:, :, _PLACE, _PLACE].masked_fill_(pattern.mask(agreement.seed), pattern.grey)
    classes = agreement.labels.classes
    if trigger.target is not None:
        return Rows(inputs, torch.full_like(rows.labels, classes.index(trigger.target)))
    return Rows(inputs, (rows.labels + trigger.shift) % len(classes))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The mask and the grey value of a trigger."""

    mask: Callable[[int], Tensor]  # (seed of the agreement) -> mask, ``[3, 3]``, boolean
    grey: float  # grey value of the changed pixels; 0 is black, 1 is white


def _random(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(torch_seed(seed, "trigger", "pattern"))
    mask = torch.zeros(3, 3).bool()
    while not mask.any():  # an empty mask would be no trigger
        mask = torch.randint(0, 2, (3, 3), generator=generator).bool()
    return mask


def _square(_seed: int) -> Tensor:
    return torch.ones(3, 3).bool()


def _cross(_seed: int) -> Tensor:
    return torch.eye(3).maximum(torch.eye(3).flip(1)).bool()


_PATTERNS: dict[str, _Pattern] = {
    "random": _Pattern(_random, 2 / 3),  # FedOSD's code: 255 / 1.5 of 255
    "square": _Pattern(_square, 1.0),  # Mimir (paper 003), §VI-A: a white square
    "cross": _Pattern(_cross, 1.0),
}
