"""FU-PGA: ascent on the leaving client's loss within a ball around a model without its last update.

Letters (Halimi et al. 2022): w = the global model, w_u = the leaving client's own, N = clients,
w_ref = the ball's centre. Distances are squared norms in the authors' program; the ball's radius is
a norm here, its root.
"""

from math import sqrt

from torch import Tensor

SHARE = 1 / 3  # of the mean squared distance to random models, which is the squared radius


def centre(model: Tensor, leaving: Tensor, clients: int, gone: int = 1) -> Tensor:
    """w_ref = (N w − m w_u) / (N − m), ``[d]``, of ``gone`` clients m whose mean is ``leaving``.

    Raises:
        ValueError: nobody stays.
    """
    if gone >= clients:
        raise ValueError(f"{gone} of {clients} clients leave, and a mean of nobody is no centre")
    return (clients * model - gone * leaving) / (clients - gone)


def radius(at: Tensor, random: Tensor) -> float:
    """Of the ball around ``at`` ``[d]``, from random models ``[count, d]``."""
    return sqrt(SHARE * float((random - at).double().square().sum(dim=1).mean()))


def within(model: Tensor, at: Tensor, size: float) -> Tensor:
    """The point of the ball that is nearest to ``model``, ``[d]``."""
    away = model - at
    far = float(away.double().norm())
    return model if far <= size else at + away * (size / far)


def squared(model: Tensor, other: Tensor) -> float:
    """‖w − w'‖² of two models ``[d]``, what the authors' early stop looks at."""
    return float((model - other).double().square().sum())
