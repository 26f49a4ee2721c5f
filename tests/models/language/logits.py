"""How far two language models are apart."""

from torch import Tensor, nn

from models.language.adapters import logits_of


def logit_gap(left: nn.Module, right: nn.Module, tokens: Tensor) -> float:
    """The largest difference of their logits on ``tokens``, ``[batch, length]``."""
    return float((logits_of(left, tokens) - logits_of(right, tokens)).abs().max())
