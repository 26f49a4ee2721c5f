"""Where a party's half of the model is computed; what crosses its edge lies in main memory.

Features, embeddings, gradients of embeddings and logits are in main memory, as they go to and from
the wire. Only a network, its gradients, optimiser state and kept copies are on the device.
"""

import os

import torch
from torch import Tensor, nn

from configs.errors import ConfigError

# cuBLAS sums in a fixed order only with a workspace of its own, which it takes from this variable
# alone; torch refuses deterministic work without it.
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def ready(name: str) -> torch.device:
    """The device of that name, from here on ready for deterministic work.

    Raises:
        ConfigError: this machine or this build of torch does not have it.
    """
    device = torch.device(name)
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise ConfigError(
                f"device = {name!r}: torch {torch.__version__} sees {found} CUDA devices here",
                'device = "cpu" in the seat, or install a driver and a CUDA build of torch',
            )
        os.environ.setdefault(_WORKSPACE, ":4096:8")
    torch.use_deterministic_algorithms(True)
    return device


def device_of(network: nn.Module) -> torch.device:
    """Where a network lies; one without parameters lies in main memory."""
    return next(network.parameters(), torch.empty(0)).device


def embed(network: nn.Module, features: Tensor) -> Tensor:
    """``[batch, ...]`` in main memory → ``[batch, width]`` there, wherever the network lies."""
    embeddings: Tensor = network(features.to(device_of(network)))
    return embeddings.cpu()
