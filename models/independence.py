"""Check that a row's output does not depend on the other rows of the batch, for privacy."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

_PROBES = 4  # random rows


@torch.no_grad()
def find_row_mixing(network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> str | None:
    """Describe what makes a row's output depend on other rows; None if no cause is found.

    Normalisation layers that mix rows are found by their type. Other layers are tested on random
    rows of ``shape``, ``[rows, *shape]``: the output for a row must not change if the other rows of
    the batch change, or if the network processes other rows in between.
    """
    for layer in network.modules():
        if isinstance(layer, _BatchNorm) or (
            isinstance(layer, _NormBase) and layer.track_running_stats
        ):
            return f"a {type(layer).__name__}"
    generator = torch.Generator().manual_seed(0)  # random test rows; they need not be secret
    rows = torch.randn((_PROBES, *shape), generator=generator, dtype=torch.float64).to(dtype)
    others = torch.cat([rows[:1], 10 * rows[1:].flip(0) + 3])
    device = next(network.parameters(), rows).device
    rows, others = rows.to(device), others.to(device)
    before, changed, after = network(rows)[0], network(others)[0], network(rows)[0]
    if not (_is_close(before, changed) and _is_close(before, after)):
        return "something that makes the output of a row depend on other rows"
    return None


def _is_close(one: torch.Tensor, two: torch.Tensor) -> bool:
    return bool(torch.allclose(one, two, rtol=1e-4, atol=1e-6))
