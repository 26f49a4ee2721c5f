"""CVFU's cached sum of votes, and when its passes over the remaining rows have come to an end.

Letters of CVFU (arXiv 2502.17081): Ĥ = the confidence matrix, h_k = party k's votes, both
``[rows, classes]``; its share of an entry is |h_k| over the sum of all parties' |h|.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor


def online_shares(votes: Mapping[str, Tensor], offline: frozenset[str]) -> Tensor:
    """Return ``[rows, classes]``, the part of every entry's votes that parties now online cast.

    Where nobody cast any it is 0.
    """
    size = {name: each.abs() for name, each in votes.items()}
    whole = torch.stack(list(size.values())).sum(dim=0)
    online = torch.stack([each for name, each in size.items() if name not in offline]).sum(dim=0)
    return torch.where(whole > 0, online / whole, torch.zeros_like(whole))


def estimated_change(change: Tensor, shares: Tensor) -> Tensor:
    """Return the change of Ĥ, offline parties included, from that of the online votes.

    Offline parties are taken to change in proportion to their share. Where the online parties have
    none, 0/0 stands for no change.
    """
    # CVFU: ΔĤ = Δh_online · (Σ_remaining share) / (Σ_online share); all parties remain.
    return torch.where(shares > 0, change / shares, torch.zeros_like(change))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Early stopping on two figures: the loss must fall, the gradient must not grow again."""

    patience: int
    loss: float = math.inf  # the least so far
    gradient: float = math.inf  # the least norm so far
    idle: int = 0  # epochs without progress

    def see(self, loss: float, gradient: float) -> "Watcher":
        """Return the watcher after one more epoch."""
        # CVFU's code: an epoch is idle if ‖g‖ ≥ 1.05 of the least, or the loss is not below it.
        progressed = gradient < 1.05 * self.gradient and loss < self.loss  # NaN never is
        return replace(
            self,
            loss=min(self.loss, loss),
            gradient=min(self.gradient, gradient),
            idle=0 if progressed else self.idle + 1,
        )

    @property
    def progressed(self) -> bool:
        """Whether the last epoch is worth keeping."""
        return self.idle == 0

    @property
    def ends(self) -> bool:
        """Whether it has waited long enough."""
        return self.idle >= self.patience
