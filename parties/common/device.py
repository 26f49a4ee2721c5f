"""The device of a party's local model: CPU or one CUDA device, with deterministic algorithms.

A network, its gradients, its optimiser state and its stored copies are in the memory of the device.
Features, embeddings, gradients of embeddings and logits are in main memory, because most of these
tensors are sent or received.
"""

import os

import torch
from torch import Tensor, nn

from configs.errors import ConfigError

# cuBLAS is deterministic only with a workspace of fixed size, which this variable alone can set;
# without the variable, torch refuses deterministic matrix products.
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def prepare_device(name: str) -> torch.device:
    """Return the device ``name``; switch torch to deterministic algorithms.

    Raises:
        ConfigError: this machine, or this build of torch, does not have the device.
    """
    device = torch.device(name)
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise ConfigError(
                f"device = {name!r} does not exist: torch {torch.__version__} finds {found} CUDA "
                "devices",
                'set device = "cpu" in the party settings, or install a CUDA build of torch',
            )
        os.environ.setdefault(_WORKSPACE, ":4096:8")
    torch.use_deterministic_algorithms(True)
    return device


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's parameters; the CPU for a network without parameters."""
    return next(network.parameters(), torch.empty(0)).device


def embed(network: nn.Module, features: Tensor) -> Tensor:
    """Compute embeddings on the network's device.

    Args:
        network: the bottom network.
        features: ``[batch, ...]``, in main memory.

    Returns:
        ``[batch, width]``, in main memory.
    """
    embeddings: Tensor = network(features.to(device_of(network)))
    return embeddings.cpu()
