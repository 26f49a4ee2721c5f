"""Retain terms: what holds a language model to what it shall keep.

Letters of Oblivionis (paper 000): γ = weight of the forgetting term, α = of the retain term.
"""

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from unlearning.llm.likelihood import Nll
from unlearning.llm.rows import IGNORED, by_row, check_rows, label_logits


def retain_nll(retain: Nll) -> Tensor:
    """Return the mean cross entropy over the batch's label tokens, a scalar."""
    return retain.token_mean


def kl_reference_model(reference: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return KL(reference ‖ model), the mean over all label tokens of the batch, a scalar.

    Both logits are ``[batch, tokens, vocabulary]``; no gradient goes to ``reference``, the model
    before unlearning. Prompt and padding, which have no label, do not count.

    Raises:
        ValueError: other shapes, or a row without a label token.
    """
    check_rows(logits, labels)
    check_rows(reference, labels)
    divergences = by_row(_divergence, reference.detach(), logits, labels)
    return divergences.sum() / (labels[:, 1:] != IGNORED).sum()


def weighted(forget: Tensor, retain: Tensor, gamma: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return γ · forget + α · retain, the form of every objective with two terms.

    Defaults of Oblivionis are γ = α = 1; for SimNPO γ = 0.125.
    """
    return gamma * forget + alpha * retain


def _divergence(reference: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    log_p, log_q = (log_softmax(label_logits(x, labels), dim=1) for x in (reference, logits))
    return kl_div(log_q, log_p, reduction="sum", log_target=True)
