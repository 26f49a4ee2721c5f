"""The server in secure aggregation: the mean update from one sum over all members."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import (
    AbsentClientError,
    MeanUpdate,
    Member,
    quorum_count,
)
from parties.horizontal.secure.masking.fixed_point import Floats
from parties.horizontal.secure.masking.pair_keys import Entropy
from parties.horizontal.secure.sums import CONTEXT_BYTES
from protocol import vfl_pb2

# (clients) -> client -> vector, as the client sent it.
CollectVectors = Callable[[Sequence[str]], Mapping[str, NDArray[Any]]]


class SumHub(ABC):
    """Computes mean updates from sums, of which the server knows no single summand.

    Args:
        min_contributors: smallest number of members of a sum.
        entropy: source of random bytes.
    """

    dtype: ClassVar[np.dtype[Any]]  # type of the members' vectors
    repeated: ClassVar[str]  # message of the error that one client is named twice

    def __init__(self, min_contributors: int, entropy: Entropy) -> None:
        self._min_contributors, self._entropy = min_contributors, entropy

    def mean_update(
        self, members: Sequence[Member], quorum: float, size: int, collect: CollectVectors
    ) -> MeanUpdate:
        """Return the mean update of the members; a member's weight is its number of rows.

        Args:
            members: each client at most once.
            quorum: smallest fraction of the members that must reply.
            size: number of elements of the model, d.
            collect: function that sends the local task to members of the sum and returns the
                members' vectors: numbers, ``[d + 2]``, or ciphertexts, ``[bytes]``.

        Raises:
            AbsentClientError: too few members are connected.
            PolicyError: the sum has too few members, or they do not agree on it.
        """
        names = [each.client for each in members]
        if len(set(names)) != len(names):
            raise PolicyError(self.repeated)
        total, present = self._total(names, quorum_count(quorum, len(names)), size + 2, collect)
        rows, loss = total[-2], total[-1]
        absent = tuple(each for each in members if each.client not in present)
        return MeanUpdate(torch.from_numpy(total[:-2] / rows), round(rows), loss / rows, absent)

    def _threshold(self, names: Sequence[str], floor: int) -> int:
        """Return the smallest number of members that a sum needs: also more than half of them."""
        return max(self._min_contributors, floor, len(names) // 2 + 1)

    def _too_few(
        self, members: Sequence[str], connected: Sequence[str], threshold: int
    ) -> PolicyError:
        """Return the error of a sum that fewer of its ``members`` can join than it needs."""
        if len(connected) == len(members):
            return PolicyError(
                f"a sum has {len(members)} clients with rows, but needs at least {threshold}",
                "how many are needed depends on aggregation.min_contributors and training.quorum",
            )
        problem = f"{len(connected)} clients are connected, but a sum needs at least {threshold}"
        return AbsentClientError.of(problem, members, connected)

    def _new_sum(self, names: Sequence[str], threshold: int) -> vfl_pb2.StartSum:
        """Return the message that starts a sum, with a new context."""
        context = self._entropy(CONTEXT_BYTES)
        return vfl_pb2.StartSum(members=names, threshold=threshold, context=context)

    @abstractmethod
    def _total(
        self, names: list[str], floor: int, count: int, collect: CollectVectors
    ) -> tuple[Floats, Sequence[str]]:
        """Return the sum of the members' vectors, ``[count]``, and the members in the sum.

        Raises:
            AbsentClientError: fewer than ``floor`` members, or fewer than agreed, are connected.
            PolicyError: the sum has too few members, or they do not agree on it.
        """
