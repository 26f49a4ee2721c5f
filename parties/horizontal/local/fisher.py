"""Values that a client computes without training: Fisher diagonal and inputs of layers."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, unfold

from parties.horizontal.local.rows import Rows

GRADIENT_BATCH = 16  # rows whose gradients are in memory at a time


def diagonal_fisher(network: nn.Module, rows: Rows) -> Tensor:
    """Return the diagonal of the empirical Fisher information, ``[d]``.

    The gradient of the cross entropy is computed for each row separately.
    """
    parameters = {name: each.detach() for name, each in network.named_parameters()}

    def loss(block: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(functional_call(network, block, (one[None],)), label[None])

    single = vmap(grad(loss), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(each) for name, each in parameters.items()}
    parts = zip(
        torch.split(rows.inputs, GRADIENT_BATCH),
        torch.split(rows.labels, GRADIENT_BATCH),
        strict=True,
    )
    for inputs, labels in parts:
        for name, each in single(parameters, inputs, labels).items():
            total[name] += each.square().sum(dim=0)
    # F_i = mean over the rows of (∂L_ce / ∂θ_i)².
    return torch.cat([each.flatten() for each in total.values()]) / len(rows)


def weight_layers(network: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """Return the linear and convolutional layers, in the order of the network's modules."""
    return [each for each in network.modules() if isinstance(each, nn.Linear | nn.Conv2d)]


@torch.no_grad()
def layer_inputs(network: nn.Module, rows: Rows) -> list[Tensor]:
    """Return the inputs of each layer of ``weight_layers``, in the order of the layers.

    Returns:
        A matrix ``[width, rows]`` for a linear layer, and the input patches ``[width, rows ·
        positions]`` for a convolution.
    """
    found: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
        found[layer] = input_columns(layer, given[0])

    hooks = [layer.register_forward_hook(note) for layer in weight_layers(network)]
    try:
        network(rows.inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return [found[layer] for layer in weight_layers(network)]


def input_columns(layer: nn.Module, given: Tensor) -> Tensor:
    """Return the input of a layer as a matrix with one input vector per column.

    Args:
        layer: a linear or convolutional layer.
        given: input of the layer, ``[rows, width]`` for a linear layer, ``[rows, channels, height,
            width]`` for a convolution.

    Returns:
        ``[width, rows]`` for a linear layer; for a convolution its input patches, ``[channels ·
        kernel, rows · positions]``.
    """
    if isinstance(layer, nn.Conv2d):
        patches = unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
        return patches.transpose(0, 1).flatten(1)
    return given.T


def split_by_layer(vector: Tensor, network: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Yield the module, the name and the values of each parameter of the network.

    ``vector`` is ``[d]``. The values of a parameter are a view of ``vector``, of any shape.
    """
    start = 0
    for module in network.modules():
        for name, each in module.named_parameters(recurse=False):
            yield module, name, vector[start : start + each.numel()].view_as(each)
            start += each.numel()
