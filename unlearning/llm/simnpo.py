"""SimNPO: negative preference by an answer's own mean likelihood, without a reference model.

Letters (Fan et al. 2024, arXiv 2410.07163): β = ``beta``, δ = ``delta``, |y| = label tokens.
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


def simnpo(forget: Nll, beta: float = 4.5, delta: float = 0.0) -> Tensor:
    """Return −(2/β) mean log σ(β (NLL/|y| − δ)), a scalar, at least 0.

    δ stands inside β, as in the authors' program; Oblivionis prints it outside, which with δ = 0 is
    the same.

    Raises:
        ValueError: β is not positive.
    """
    if not beta > 0:
        raise ValueError(f"SimNPO's beta is {beta}, legal is > 0")
    # Oblivionis (paper 000) Eq 39, with −log p = NLL and δ inside the bracket.
    return -(2.0 / beta) * logsigmoid(beta * (forget.mean - delta)).mean()
