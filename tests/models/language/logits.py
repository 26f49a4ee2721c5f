"""Distance of two language models by their logits."""

from torch import Tensor, nn

from models.language.adapters import model_logits


def logit_gap(left: nn.Module, right: nn.Module, tokens: Tensor) -> float:
    """Return the largest difference of two models' logits on ``tokens``, ``[batch, length]``."""
    return float((model_logits(left, tokens) - model_logits(right, tokens)).abs().max())
