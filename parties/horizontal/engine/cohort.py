"""The cohort: the server's interface to all clients, and the mean of the clients' updates.

Algorithms use only ``Cohort``, so the same algorithms run with clients that connect over gRPC and
with clients that are simulated in a pool of processes or on a cluster.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Protocol, Self

import torch
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind, TrainingKind

BLOCK = 1 << 17  # elements of the sum, 1 MiB, to which all held updates are added in turn
HELD = 1 << 23  # elements of all updates that wait to be added together


class AbsentClientError(PolicyError):
    """Clients that an order or a round needs do not reply; when they return, it can succeed."""

    @classmethod
    def of(
        cls, problem: str, members: Iterable[object], replied: Container[object], other: str = ""
    ) -> Self:
        """Return the error that names the ``members`` that are not among ``replied``.

        ``other`` says what helps besides starting them.
        """
        missing = [str(each) for each in members if each not in replied]
        return cls(
            f"{problem}; missing: {', '.join(missing[:10])}", f"start the missing clients{other}"
        )


DIVERGED_HINT = "use a smaller learning rate, or set the key 'clip' to limit the gradient norm"


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A client, and the kind of training rows that the client uses in a round.

    A client that must forget only some of its rows counts as two members, because its forgotten
    rows are treated as a separate client (FedOSD, paper 001, §2.2).
    """

    client: str  # name of the client
    kind: TrainingKind = "learn"  # ``learn``, ``retained`` or ``forgotten``

    def __str__(self) -> str:
        return self.client if self.kind == "learn" else f"{self.client}, {self.kind} rows"


@dataclass(frozen=True, slots=True)
class MeanUpdate:
    """Mean of the members' updates, weighted by the numbers of rows of the members.

    Notation: n_k = number of rows of member k; φ_k = the model that member k trained; φ = the model
    that the server sent.
    """

    delta: Tensor  # Σ n_k (φ_k − φ) / Σ n_k over the members that replied, ``[d]``
    rows: int  # Σ n_k
    loss: float  # mean loss of the members, weighted by their numbers of rows
    absent: tuple[Member, ...]  # members that did not reply


class Trainer(Protocol):
    """Interface through which rounds obtain the updates of clients."""

    @property
    def quorum(self) -> float:
        """Smallest fraction of the members that must reply."""

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield each member's update when the update arrives; skip members that do not reply.

        ``slots`` maps names to sent vectors, ``[d]`` each; the vector ``model`` is always present.

        Raises:
            PolicyError: with secure aggregation, the server receives only sums of updates.
        """

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the members' mean update; ``slots`` maps names to sent vectors, ``[d]`` each.

        Raises:
            PolicyError: fewer members replied than the quorum requires.
            Diverged: an update is not finite.
        """


class Cohort(Trainer, Protocol):
    """Interface through which the server's algorithms use all clients of a run."""

    @property
    def clients(self) -> Sequence[str]:
        """Names of all clients."""

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, at each client of ``names`` that is connected."""

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to a branch, that is, to a named set of personal parameters.

        A new branch starts with a copy of the personal parameters of the branch ``parent``, or
        without personal parameters if ``parent`` is None.
        """

    def select_request(self, request: str) -> None:
        """Select the request to which the row kinds ``forgotten`` and ``retained`` refer.

        Raises:
            PolicyError: a client is not connected, but all clients must select the request.
        """

    def purge(self) -> dict[str, list[str]]:
        """Delete the forgotten rows at every client; return what each client deleted."""


class WeightedMean:
    """Running mean of updates in float64, weighted by the members' numbers of rows.

    Several updates are added together, so that the sum is read from memory once. The mean occupies
    as much memory as two models, one update and 32 MiB, however many clients there are.
    """

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self._held: list[tuple[Member, LocalUpdate]] = []
        self.rows, self._loss = 0, 0.0
        self.seen, self._diverged = set[Member](), list[Member]()

    def add(self, member: Member, learned: LocalUpdate) -> None:
        """Add one member's update, whose vector must not change before ``result`` is called.

        If the update is not finite, ``result`` raises an error that names the member.
        """
        self.seen.add(member)
        self._held.append((member, learned))
        if sum(len(each.delta) for _, each in self._held) >= HELD:
            self._add_held()

    def _add_held(self) -> None:
        """Add the held updates to the sum."""
        held, self._held = self._held, []
        if not held:
            return
        if self._sum is None:
            self._sum = torch.zeros_like(held[0][1].delta, dtype=torch.float64)
        parts = zip(*(torch.split(each.delta, BLOCK) for _, each in held), strict=True)
        for total, block in zip(torch.split(self._sum, BLOCK), parts, strict=True):
            for part, (_, each) in zip(block, held, strict=True):
                total.add_(part, alpha=each.rows)
        self.rows += sum(each.rows for _, each in held)
        self._loss += sum(each.loss * each.rows for _, each in held)
        # The sum of elements is finite only if all elements of all updates are finite.
        if not (isfinite(self._sum.sum().item()) and isfinite(self._loss)):
            self._diverged += [member for member, each in held if not is_finite_update(each)]

    def result(self, members: Sequence[Member], quorum: float) -> MeanUpdate:
        """Return the mean over the members that replied.

        Raises:
            PolicyError: fewer members replied than the quorum requires.
            Diverged: an update is not finite.
        """
        self._add_held()
        require_finite_updates(self._diverged)
        absent = _absent(members, self.seen, quorum)
        if self._sum is None:
            raise PolicyError("no client returned an update; expected at least one update")
        return MeanUpdate(self._sum / self.rows, self.rows, self._loss / self.rows, absent)


def weighted_mean(
    trainer: Trainer, members: Sequence[Member], task: LocalTask, slots: Slots
) -> MeanUpdate:
    """Return the mean of the members' updates; ``slots`` are sent vectors by name, ``[d]`` each."""
    total = WeightedMean()
    for member, update in trainer.updates(members, task, slots):
        total.add(member, update)
    return total.result(members, trainer.quorum)


def is_finite_update(learned: LocalUpdate) -> bool:
    """Return whether an update and its loss are finite."""
    if not isfinite(learned.loss):
        return False
    # A finite sum has only finite terms, and takes a tenth of the time of a check of every element.
    # Every element is checked only if the sum is not finite: large finite terms may overflow it.
    return isfinite(learned.delta.sum().item()) or bool(torch.isfinite(learned.delta).all())


def require_finite_updates(diverged: Sequence[Member]) -> None:
    """Check that no member diverged. All members must have replied before this check.

    Raises:
        Diverged: at least one member diverged.
    """
    if diverged:
        raise Diverged(
            f"the update of {diverged[0]} is not finite, or a value in the update exceeds "
            "limits.magnitude",
            DIVERGED_HINT,
        )


def require_finite(model: Tensor) -> None:
    """Check that a model, ``[d]``, is finite.

    Raises:
        Diverged: the model is not finite.
    """
    if not bool(torch.isfinite(model).all()):
        raise Diverged("the model has elements that are not finite", DIVERGED_HINT)


def require_bounded(model: Tensor, magnitude: float) -> None:
    """Check that no element of a model, ``[d]``, is so large that clients would refuse the model.

    Raises:
        Diverged: the absolute value of an element exceeds ``magnitude`` or is not finite.
    """
    if not bool((model.abs() <= magnitude).all()):
        raise Diverged(
            f"an element of the model exceeds limits.magnitude = {magnitude:g}", DIVERGED_HINT
        )


def quorum_count(quorum: float, asked: int) -> int:
    """Return how many of ``asked`` members must reply, for example 14 of 25 if ``quorum`` is 0.56.

    Rounding errors of floating-point numbers do not change the result.
    """
    return ceil(quorum * asked - 1e-9)


def quorum_updates(
    trainer: Trainer, members: Sequence[Member], task: LocalTask, slots: Slots
) -> Iterator[tuple[Member, LocalUpdate]]:
    """Yield each member's update when the update arrives, if the update is finite.

    ``slots`` maps names to sent vectors, ``[d]`` each. Errors are raised only after the last
    update.

    Raises:
        AbsentClientError: fewer members replied than the quorum requires.
        Diverged: an update is not finite.
    """
    seen, diverged = set[Member](), list[Member]()
    for member, learned in trainer.updates(members, task, slots):
        seen.add(member)
        if is_finite_update(learned):
            yield member, learned
        else:
            diverged.append(member)
    require_finite_updates(diverged)
    _absent(members, seen, trainer.quorum)


def _absent(members: Sequence[Member], seen: set[Member], quorum: float) -> tuple[Member, ...]:
    """Members that did not reply.

    Raises:
        AbsentClientError: fewer replied than the quorum.
    """
    if not seen or len(seen) < quorum_count(quorum, len(members)):
        problem = f"only {len(seen)} of {len(members)} clients replied, fewer than the quorum"
        raise AbsentClientError.of(
            f"{problem} requires", members, seen, ", or lower training.quorum"
        )
    return tuple(each for each in members if each not in seen)


def pseudo_gradients(found: Mapping[Member, LocalUpdate], task: LocalTask) -> Tensor:
    """Return the pseudo-gradient of each update, ``[members, d]``, in the order of ``found``.

    Raises:
        Diverged: an update is not finite.
    """
    require_finite_updates([member for member, each in found.items() if not is_finite_update(each)])
    # FedOSD (paper 001) §3: g_i = (ω − ω_i) / η.
    return torch.stack([-each.delta for each in found.values()]) / task.learning_rate
