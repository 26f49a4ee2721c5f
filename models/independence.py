"""Do rows of a batch influence each other? A network in which they do has no per-row privacy."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

_PROBES = 4  # rows


@torch.no_grad()
def mixes_rows(network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> str | None:
    """What lets a row's output depend on other rows, in words; None where nothing was found.

    Layers known for it are refused by name. Others are tried: the output for a row must stay the
    same when the rest of its batch changes, and when the network has seen other rows in between.
    """
    for layer in network.modules():
        if isinstance(layer, _BatchNorm) or (
            isinstance(layer, _NormBase) and layer.track_running_stats
        ):
            return f"a {type(layer).__name__}"
    generator = torch.Generator().manual_seed(0)  # a probe, no secret
    rows = torch.randn((_PROBES, *shape), generator=generator, dtype=torch.float64).to(dtype)
    others = torch.cat([rows[:1], 10 * rows[1:].flip(0) + 3])
    device = next(network.parameters(), rows).device
    rows, others = rows.to(device), others.to(device)
    before, beside, after = network(rows)[0], network(others)[0], network(rows)[0]
    if not (_same(before, beside) and _same(before, after)):
        return "something that makes the output of a row depend on other rows"
    return None


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return bool(torch.allclose(one, two, rtol=1e-4, atol=1e-6))
