"""The weighted mean of clients' adapters, in three ways, and how far means of factors go wrong.

α_k = n_k / Σ n, W_k = B_k A_k with A ``[r, in]`` and B ``[out, r]``. The mean that is meant is
W̄ = Σ α_k W_k, which has up to K·r ranks. Three ways to r ranks:

* ``factors``: Ā = Σ α_k A_k, B̄ = Σ α_k B_k (paper 000). B̄ Ā is not W̄; ``factor_gap`` tells by
  how much;
* ``product_svd``: the best approximation of W̄ by r ranks (Eckart and Young), exact where W̄ has no
  more;
* ``freeze_A``: all A equal and never trained, the mean of B alone: exact.

All sums are in float64; the result has the type of the first client's tensors. What is no factor
(a tensor trained in full) is averaged as it is. α/r is left out, being the same for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from models.language.errors import LanguageModelError

LoraAggregation: TypeAlias = Literal["factors", "product_svd", "freeze_A"]
Adapters: TypeAlias = Mapping[str, Tensor]

_A, _B = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the product of mean factors is from the mean of products, in Frobenius norms."""

    gap: float  # ‖W̄ − B̄ Ā‖
    mean: float  # ‖W̄‖, to read the other against

    @property
    def relative(self) -> float:
        """Their ratio; 0 where both are."""
        return self.gap / self.mean if self.mean else 0.0


def aggregate(
    way: LoraAggregation, clients: Sequence[Adapters], rows: Sequence[float]
) -> dict[str, Tensor]:
    """Average the clients' adapters, weighted by ``rows`` (n_k).

    Raises:
        LanguageModelError: no client, weights that are none, clients with other names or shapes,
            or, for ``freeze_A``, clients whose A differ.
    """
    shares = _shares(clients, rows)
    if way == "freeze_A":
        _check_frozen(clients)
    found = {name: _mean(name, clients, shares) for name in clients[0]}
    if way == "product_svd":
        for module in _modules(clients[0]):
            found[module + _B], found[module + _A] = _truncated(module, clients, shares)
    if way == "freeze_A":
        # The mean of equal numbers can differ from them in the last place.
        frozen = {name: each.double() for name, each in clients[0].items() if name.endswith(_A)}
        found |= frozen
    return {name: found[name].to(clients[0][name].dtype) for name in clients[0]}


def factor_gap(clients: Sequence[Adapters], rows: Sequence[float]) -> dict[str, Gap]:
    """‖W̄ − B̄ Ā‖ of every module that has both factors, from the factors alone.

    Where only B is given, A is frozen and equal, and there is no gap to report.

    Raises:
        LanguageModelError: as ``aggregate``.
    """
    shares = _shares(clients, rows)
    return {module: _gap(module, clients, shares) for module in _modules(clients[0])}


def total_gap(gaps: Mapping[str, Gap]) -> Gap:
    """The norms over all modules together."""
    gap = sqrt(sum(each.gap**2 for each in gaps.values()))
    return Gap(gap, sqrt(sum(each.mean**2 for each in gaps.values())))


def _gap(module: str, clients: Sequence[Adapters], shares: Sequence[float]) -> Gap:
    mean_a, mean_b = (_mean(module + end, clients, shares) for end in (_A, _B))
    # W̄ − B̄ Ā = Σ α_k (B_k − B̄)(A_k − Ā): no difference of two large products.
    apart = [(each[module + _B] - mean_b, each[module + _A] - mean_a) for each in clients]
    whole = [(each[module + _B].double(), each[module + _A].double()) for each in clients]
    return Gap(_norm_of_sum(apart, shares), _norm_of_sum(whole, shares))


def _truncated(
    module: str, clients: Sequence[Adapters], shares: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """B ``[out, r]`` and A ``[r, in]`` of the nearest product, its singular values halved."""
    pairs = [(each[module + _B].double(), each[module + _A].double()) for each in clients]
    rank = len(pairs[0][1])
    left, core, right = _thin(pairs, shares)
    u, s, vh = torch.linalg.svd(core, full_matrices=False)
    u, s, vh = left @ u[:, :rank], s[:rank], vh[:rank] @ right.T
    signs = _signs(u)
    roots = s.sqrt()
    # A part without weight keeps B = 0 and an A of the usual length: with both at zero neither
    # would have a gradient, and the part would never learn again.
    usual = sqrt(float(sum(a.square().sum() for _, a in pairs)) / (len(pairs) * rank))
    dead = s <= s[0] * max(core.shape) * torch.finfo(s.dtype).eps
    b = u * torch.where(dead, 0.0, roots * signs)
    a = vh * torch.where(dead, usual, roots * signs).unsqueeze(1)
    return _padded(b, rank, 1), _padded(a, rank, 0)


def _thin(
    pairs: Sequence[tuple[Tensor, Tensor]], shares: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Q, core and P with Σ α_k B_k A_k = Q core Pᵀ; the core is K·r by K·r at most."""
    stacked_b = torch.cat([share * b for (b, _), share in zip(pairs, shares, strict=True)], dim=1)
    stacked_a = torch.cat([a for _, a in pairs], dim=0)
    left, upper = torch.linalg.qr(stacked_b)
    right, lower = torch.linalg.qr(stacked_a.T)
    return left, upper @ lower.T, right


def _norm_of_sum(pairs: Sequence[tuple[Tensor, Tensor]], shares: Sequence[float]) -> float:
    """‖Σ α_k B_k A_k‖ = ‖B A‖ of the stacked factors, from BᵀB and A Aᵀ: K·r by K·r each."""
    b = torch.cat([share * b for (b, _), share in zip(pairs, shares, strict=True)], dim=1)
    a = torch.cat([a for _, a in pairs], dim=0)
    return sqrt(max(0.0, float(((b.T @ b) * (a @ a.T)).sum())))


def _signs(u: Tensor) -> Tensor:
    """±1 a column, such that each one's largest entry becomes positive: the SVD leaves it open."""
    largest = u.abs().argmax(dim=0, keepdim=True)
    return torch.where(u.gather(0, largest)[0] < 0, -1.0, 1.0).to(u.dtype)


def _padded(factor: Tensor, rank: int, dim: int) -> Tensor:
    """Zeros for the ranks that a matrix smaller than r cannot have."""
    shape = list(factor.shape)
    shape[dim] = rank - shape[dim]
    return torch.cat([factor, factor.new_zeros(shape)], dim=dim)


def _mean(name: str, clients: Sequence[Adapters], shares: Sequence[float]) -> Tensor:
    """Σ α_k x_k in float64, in the clients' order."""
    total = torch.zeros_like(clients[0][name], dtype=torch.float64)
    for client, share in zip(clients, shares, strict=True):
        total.add_(client[name].double(), alpha=share)
    return total


def _modules(client: Adapters) -> list[str]:
    """Modules that have both factors."""
    names = [name.removesuffix(_A) for name in client if name.endswith(_A)]
    return [name for name in names if name + _B in client]


def _shares(clients: Sequence[Adapters], rows: Sequence[float]) -> list[float]:
    if not clients or len(clients) != len(rows):
        raise LanguageModelError(f"{len(clients)} clients and {len(rows)} weights")
    if not all(isfinite(n) and n >= 0 for n in rows) or not sum(rows) > 0:
        raise LanguageModelError(
            f"weights {list(rows)} do not make a mean", hint="0 or more each, and not all 0"
        )
    first = {name: each.shape for name, each in clients[0].items()}
    for place, client in enumerate(clients[1:], start=2):
        if {name: each.shape for name, each in client.items()} != first:
            raise LanguageModelError(
                f"client {place} of {len(clients)} has adapters of other names or shapes",
                hint="all clients must adapt the same modules with the same rank",
            )
    return [n / sum(rows) for n in rows]


def _check_frozen(clients: Sequence[Adapters]) -> None:
    for name, first in clients[0].items():
        if name.endswith(_A) and not all(torch.equal(first, each[name]) for each in clients):
            raise LanguageModelError(
                f"{name} differs between clients, and freeze_A needs it equal",
                hint="freeze A before training, with one seed at all clients",
            )
