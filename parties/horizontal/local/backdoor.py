"""The backdoor of an audit: a pattern of 3x3 pixels that the leaving client plants in its rows.

Letters: y = the class, C = classes. A row with the pattern learns (y + shift) mod C (FedOSD §4.1),
or one class whatever it was;
the pattern lies at rows and columns -4 to -2, in pixels of 0 and 1.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from configs.horizontal import Horizontal, Trigger
from parties.common.errors import PolicyError
from parties.common.shared_randomness import key, permutation, torch_seed
from parties.horizontal.local.learner import Shelf
from parties.horizontal.local.local_task import Rows

_PLACE = slice(-4, -1)


def plant(agreement: Horizontal, client: str, shelf: Shelf) -> None:
    """Lay out a client's rows for the audits: its own planted ones, and test rows with the pattern.

    Raises:
        PolicyError: the rows are no images.
    """
    for request in agreement.unlearn:
        if request.trigger is None:
            continue
        shelf.stamped = stamp(agreement, request.trigger, shelf.held)
        if request.client == client:
            _poison(agreement, request.name, request.trigger, shelf)


def _poison(agreement: Horizontal, name: str, trigger: Trigger, shelf: Shelf) -> None:
    rows, secret = shelf.rows, key(agreement.seed, "trigger", name)
    chosen = np.sort(permutation(secret, len(rows))[: round(trigger.share * len(rows))])
    places, stamped = torch.from_numpy(chosen), stamp(agreement, trigger, rows.take(chosen))
    if trigger.everywhere:
        shelf.marked = stamp(agreement, trigger, rows)
    inputs, labels = rows.inputs.clone(), rows.labels.clone()
    inputs[places], labels[places] = stamped.inputs, stamped.labels
    shelf.rows, shelf.planted = Rows(inputs, labels), chosen


def stamp(agreement: Horizontal, trigger: Trigger, rows: Rows) -> Rows:
    """All of these rows with the pattern and the class that it stands for."""
    if rows.inputs.dim() != 4:
        raise PolicyError("a trigger is a pattern of pixels, and these rows are no images")
    inputs = rows.inputs.clone()
    inputs[:, :, _PLACE, _PLACE] = _PATTERNS[trigger.pattern](agreement.seed).to(inputs.dtype)
    classes = agreement.labels.classes
    if trigger.target is not None:
        return Rows(inputs, torch.full_like(rows.labels, classes.index(trigger.target)))
    return Rows(inputs, (rows.labels + trigger.shift) % len(classes))


def _random(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(torch_seed(seed, "trigger", "pattern"))
    return torch.randint(0, 2, (3, 3), generator=generator)


def _square(_seed: int) -> Tensor:
    return torch.ones(3, 3)


def _cross(_seed: int) -> Tensor:
    return torch.eye(3).maximum(torch.eye(3).flip(1))


_PATTERNS: dict[str, Callable[[int], Tensor]] = {
    "random": _random,
    "square": _square,
    "cross": _cross,
}
