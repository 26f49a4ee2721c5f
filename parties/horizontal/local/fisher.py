"""What a client tells of its rows without learning: Fisher information, and its layers' inputs."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, unfold

from parties.horizontal.local.local_task import Rows

AT_ONCE = 16  # rows whose gradients are held at a time


def fisher(network: nn.Module, rows: Rows) -> Tensor:
    """Mean of squared gradients of single rows' cross entropy, ``[d]`` (the empirical Fisher)."""
    parameters = {name: each.detach() for name, each in network.named_parameters()}

    def loss(block: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(functional_call(network, block, (one[None],)), label[None])

    single = vmap(grad(loss), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(each) for name, each in parameters.items()}
    parts = zip(torch.split(rows.inputs, AT_ONCE), torch.split(rows.labels, AT_ONCE), strict=True)
    for inputs, labels in parts:
        for name, each in single(parameters, inputs, labels).items():
            total[name] += each.square().sum(dim=0)
    return torch.cat([each.flatten() for each in total.values()]) / len(rows)


def layers(network: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """The layers whose inputs are told, in the order in which the network names them."""
    return [each for each in network.modules() if isinstance(each, nn.Linear | nn.Conv2d)]


@torch.no_grad()
def inputs(network: nn.Module, rows: Rows) -> list[Tensor]:
    """Of every layer its inputs as columns, ``[width, rows]``; of convolutions their patches.

    In the order of ``layers``, which need not be that in which a row passes them.
    """
    found: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
        found[layer] = columns(layer, given[0])

    hooks = [layer.register_forward_hook(note) for layer in layers(network)]
    try:
        network(rows.inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return [found[layer] for layer in layers(network)]


def columns(layer: nn.Module, given: Tensor) -> Tensor:
    """A layer's inputs as columns."""
    if isinstance(layer, nn.Conv2d):
        patches = unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
        return patches.transpose(0, 1).flatten(1)
    return given.T


def cut(vector: Tensor, network: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """A vector ``[d]`` as the parameters of each layer: module, name and a view of their shape."""
    start = 0
    for module in network.modules():
        for name, each in module.named_parameters(recurse=False):
            yield module, name, vector[start : start + each.numel()].view_as(each)
            start += each.numel()
