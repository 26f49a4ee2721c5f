"""Computations of the method CVFU: estimates for the confidence matrix, and early stopping.

Notation of CVFU (arXiv 2502.17081): Ĥ = the confidence matrix, the cached sum of all parties'
votes; h_k = the votes of party k; Ĥ and h_k are ``[rows, classes]``. The share of party k in an
entry is |h_k| divided by the sum of |h| over all parties.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor


def online_shares(votes: Mapping[str, Tensor], offline: frozenset[str]) -> Tensor:
    """Return the summed shares of the online parties in each entry, ``[rows, classes]``.

    ``votes`` holds h_k of each party by name, ``[rows, classes]``. An entry is 0 if the votes of
    all parties are 0 there.
    """
    size = {name: vote.abs() for name, vote in votes.items()}
    whole = torch.stack(list(size.values())).sum(dim=0)
    online = torch.stack([vote for name, vote in size.items() if name not in offline]).sum(dim=0)
    return torch.where(whole > 0, online / whole, torch.zeros_like(whole))


def estimate_full_change(change: Tensor, shares: Tensor) -> Tensor:
    """Estimate the change of Ĥ when the votes of all parties change, ``[rows, classes]``.

    ``change`` is the change of the online parties' votes, and ``shares`` are the summed shares of
    the online parties, both ``[rows, classes]``. Offline parties are assumed to change in
    proportion to their shares. An entry is 0 if the summed shares of the online parties are 0
    there.
    """
    # CVFU: ΔĤ = Δh_online · (Σ_remaining share) / (Σ_online share); all parties remain.
    return torch.where(shares > 0, change / shares, torch.zeros_like(change))


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """Early stopping after ``patience`` epochs in a row without progress.

    An epoch makes progress if its loss is below the lowest loss so far, and its gradient norm is
    below 1.05 times the lowest norm so far.
    """

    patience: int
    loss: float = math.inf  # lowest so far
    gradient: float = math.inf  # lowest norm so far
    idle: int = 0  # epochs without progress

    def after_epoch(self, loss: float, gradient: float) -> "EarlyStopping":
        """Return the state after one more epoch with this loss and gradient norm."""
        # CVFU's code: an epoch is idle if ‖g‖ ≥ 1.05 of the lowest, or the loss is not below it.
        progressed = gradient < 1.05 * self.gradient and loss < self.loss  # False for NaN
        return replace(
            self,
            loss=min(self.loss, loss),
            gradient=min(self.gradient, gradient),
            idle=0 if progressed else self.idle + 1,
        )

    @property
    def progressed(self) -> bool:
        """Whether the last epoch made progress; if so, the caller keeps the model of this epoch."""
        return self.idle == 0

    @property
    def should_stop(self) -> bool:
        """Whether ``patience`` epochs in a row made no progress."""
        return self.idle >= self.patience
