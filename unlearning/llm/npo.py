"""Negative preference optimisation: forget an answer as if another were preferred to it.

Letters (Zhang et al. 2024, arXiv 2404.05868): θ = the model, ref = the model before unlearning,
β = ``beta``, how early an answer is let go.
"""

from typing import Final

from torch import Tensor
from torch.nn.functional import logsigmoid

from unlearning.llm.likelihood import Nll
from unlearning.llm.promise import measured

PROMISE: Final = measured(
    "Forgetting slows down by itself but has no level to stop at; relearning and quantisation may "
    "bring answers back."
)


def npo(forget: Nll, reference: Tensor, beta: float = 0.1) -> Tensor:
    """Return −(2/β) mean log σ(β (NLL_θ − NLL_ref)), a scalar, at least 0.

    ``reference`` is NLL_ref, ``[batch]``. Sums over tokens, with no normalisation by length: at the
    reference dL/dNLL is −1 an answer for every β, and β → 0 is gradient ascent on these sums.

    Raises:
        ValueError: β is not positive, or ``reference`` is of other rows.
    """
    if not beta > 0:
        raise ValueError(f"NPO's beta is {beta}, legal is > 0; towards 0 it is gradient ascent")
    if reference.shape != forget.total.shape:
        raise ValueError(
            f"reference {list(reference.shape)} is not of the {len(forget.total)} rows to forget"
        )
    # Oblivionis (paper 000) Eq 38, with −log p = NLL: −(2/β) E log σ(−β log(p_θ / p_ref)).
    gain = forget.total - reference.detach()
    return -(2.0 / beta) * logsigmoid(beta * gain).mean()
