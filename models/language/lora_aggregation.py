"""Three rules to average clients' adapters, and a measure of the error of one rule.

Notation: α_k = n_k / Σ n, W_k = B_k A_k with A ``[r, in]`` and B ``[out, r]``. The exact mean W̄ =
Σ α_k W_k has rank up to K·r for K clients. Three rules return adapters of rank r:

* ``factors``: Ā = Σ α_k A_k and B̄ = Σ α_k B_k (paper 000). ``factor_gaps`` measures the difference
  between B̄ Ā and W̄.
* ``product_svd``: the best rank-r approximation of W̄ (Eckart and Young), exact if W̄ has rank r.
* ``freeze_A``: all clients have the same A, which is never trained, so the mean of B is exact.

All sums are computed in float64; the result has the type of the first client's tensors. A tensor
that is not a factor, because it is trained in full, is averaged directly. The factor α/r is
omitted, because α/r is the same for all clients.
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
class FactorGap:
    """Frobenius norms of two matrices: of the error W̄ − B̄ Ā, and of the exact mean W̄."""

    gap: float  # ‖W̄ − B̄ Ā‖
    mean: float  # ‖W̄‖, as a reference

    @property
    def relative(self) -> float:
        """The norm of W̄ − B̄ Ā divided by the norm of W̄; 0 if the norm of W̄ is 0."""
        return self.gap / self.mean if self.mean else 0.0


def aggregate_adapters(
    rule: LoraAggregation, clients: Sequence[Adapters], rows: Sequence[float]
) -> dict[str, Tensor]:
    """Return the mean of the clients' adapters by name, weighted by ``rows`` (n_k).

    The tensors of ``clients`` and of the result are A ``[r, in]``, B ``[out, r]``, or other tensors
    of any shape.

    Raises:
        LanguageModelError: there is no client, ``rows`` has a negative number or only zeros,
            the names or shapes of the tensors differ between clients, or the rule is ``freeze_A``
            and A differs between clients.
    """
    shares = _shares(clients, rows)
    if rule == "freeze_A":
        _check_frozen(clients)
    found = {name: _mean(name, clients, shares) for name in clients[0]}
    if rule == "product_svd":
        for module in _modules(clients[0]):
            found[module + _B], found[module + _A] = _truncated(module, clients, shares)
    if rule == "freeze_A":
        # The mean of equal numbers can differ from them in the last digit.
        frozen = {name: each.double() for name, each in clients[0].items() if name.endswith(_A)}
        found |= frozen
    return {name: found[name].to(clients[0][name].dtype) for name in clients[0]}


def factor_gaps(clients: Sequence[Adapters], rows: Sequence[float]) -> dict[str, FactorGap]:
    """Return ‖W̄ − B̄ Ā‖ of each module with both factors; ``rows`` are the weights n_k.

    The tensors of ``clients`` are A ``[r, in]`` and B ``[out, r]``. A module that has only B in
    ``clients`` is left out: all clients then share a frozen A, and the gap is zero.

    Raises:
        LanguageModelError: there is no client, ``rows`` has a negative number or only zeros, or
            the names or shapes of the tensors differ between clients.
    """
    shares = _shares(clients, rows)
    return {module: _gap(module, clients, shares) for module in _modules(clients[0])}


def total_gap(gaps: Mapping[str, FactorGap]) -> FactorGap:
    """Return both norms for all modules together; a norm is the root of a sum of squares."""
    gap = sqrt(sum(each.gap**2 for each in gaps.values()))
    return FactorGap(gap, sqrt(sum(each.mean**2 for each in gaps.values())))


def _gap(module: str, clients: Sequence[Adapters], shares: Sequence[float]) -> FactorGap:
    mean_a, mean_b = (_mean(module + end, clients, shares) for end in (_A, _B))
    # W̄ − B̄ Ā = Σ α_k (B_k − B̄)(A_k − Ā), which is no difference of two large products.
    centred = [(each[module + _B] - mean_b, each[module + _A] - mean_a) for each in clients]
    whole = [(each[module + _B].double(), each[module + _A].double()) for each in clients]
    return FactorGap(_norm_of_sum(centred, shares), _norm_of_sum(whole, shares))


def _truncated(
    module: str, clients: Sequence[Adapters], shares: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Return B ``[out, r]`` and A ``[r, in]`` of the nearest product, each with √s of its SVD."""
    pairs = [(each[module + _B].double(), each[module + _A].double()) for each in clients]
    rank = len(pairs[0][1])
    left, core, right = _thin(pairs, shares)
    u, s, vh = torch.linalg.svd(core, full_matrices=False)
    u, s, vh = left @ u[:, :rank], s[:rank], vh[:rank] @ right.T
    signs = _signs(u)
    roots = s.sqrt()
    # A direction with singular value 0 gets B = 0 and an A of the usual length: if both were zero,
    # neither would have a gradient, and the direction could never be trained again.
    usual = sqrt(float(sum(a.square().sum() for _, a in pairs)) / (len(pairs) * rank))
    dead = s <= s[0] * max(core.shape) * torch.finfo(s.dtype).eps
    b = u * torch.where(dead, 0.0, roots * signs)
    a = vh * torch.where(dead, usual, roots * signs).unsqueeze(1)
    return _pad_rank(b, rank, 1), _pad_rank(a, rank, 0)


def _thin(
    pairs: Sequence[tuple[Tensor, Tensor]], shares: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Q, core and P with Σ α_k B_k A_k = Q core Pᵀ; the core is at most K·r by K·r."""
    stacked_b = torch.cat([share * b for (b, _), share in zip(pairs, shares, strict=True)], dim=1)
    stacked_a = torch.cat([a for _, a in pairs], dim=0)
    left, upper = torch.linalg.qr(stacked_b)
    right, lower = torch.linalg.qr(stacked_a.T)
    return left, upper @ lower.T, right


def _norm_of_sum(pairs: Sequence[tuple[Tensor, Tensor]], shares: Sequence[float]) -> float:
    """Return ‖Σ α_k B_k A_k‖ = ‖B A‖ of the stacked factors, from BᵀB and A Aᵀ, K·r by K·r."""
    b = torch.cat([share * b for (b, _), share in zip(pairs, shares, strict=True)], dim=1)
    a = torch.cat([a for _, a in pairs], dim=0)
    return sqrt(max(0.0, float(((b.T @ b) * (a @ a.T)).sum())))


def _signs(u: Tensor) -> Tensor:
    """Return ±1 per column that makes its largest entry positive; the SVD leaves signs open."""
    largest = u.abs().argmax(dim=0, keepdim=True)
    return torch.where(u.gather(0, largest)[0] < 0, -1.0, 1.0).to(u.dtype)


def _pad_rank(factor: Tensor, rank: int, dim: int) -> Tensor:
    """Append zeros up to ``rank``, which a matrix with a side below r cannot reach."""
    shape = list(factor.shape)
    shape[dim] = rank - shape[dim]
    return torch.cat([factor, factor.new_zeros(shape)], dim=dim)


def _mean(name: str, clients: Sequence[Adapters], shares: Sequence[float]) -> Tensor:
    """Return Σ α_k x_k in float64, summed in the order of the clients."""
    total = torch.zeros_like(clients[0][name], dtype=torch.float64)
    for client, share in zip(clients, shares, strict=True):
        total.add_(client[name].double(), alpha=share)
    return total


def _modules(client: Adapters) -> list[str]:
    """Return the modules that have both factors."""
    names = [name.removesuffix(_A) for name in client if name.endswith(_A)]
    return [name for name in names if name + _B in client]


def _shares(clients: Sequence[Adapters], rows: Sequence[float]) -> list[float]:
    if not clients or len(clients) != len(rows):
        raise LanguageModelError(
            "the mean of adapters needs at least one client, and one weight per client (got "
            f"{len(clients)} clients and {len(rows)} weights)"
        )
    if not all(isfinite(n) and n >= 0 for n in rows) or not sum(rows) > 0:
        raise LanguageModelError(
            f"the adapters cannot be averaged with the weights {list(rows)}",
            hint="weights must be 0 or more, and not all of them 0",
        )
    first = {name: each.shape for name, each in clients[0].items()}
    for place, client in enumerate(clients[1:], start=2):
        if {name: each.shape for name, each in client.items()} != first:
            raise LanguageModelError(
                f"the adapters of client {place} of {len(clients)} differ from those of client 1 "
                "in names or shapes",
                hint="all clients must adapt the same modules with the same rank",
            )
    return [n / sum(rows) for n in rows]


def _check_frozen(clients: Sequence[Adapters]) -> None:
    for name, first in clients[0].items():
        if name.endswith(_A) and not all(torch.equal(first, each[name]) for each in clients):
            raise LanguageModelError(
                f"freeze_A needs the same matrix A at all clients, but {name} differs between "
                "clients",
                hint="freeze A before training, and use the same seed at all clients",
            )
