"""The server in masked sums: the server collects masked vectors and unmasks their sum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import MeanUpdate, Member, quorum_count
from parties.horizontal.secure.masked_client import MASKED_FRACTION_BITS
from parties.horizontal.secure.masking.client import MaskingError, RevealedShares
from parties.horizontal.secure.masking.fixed_point import decode_fixed_point
from parties.horizontal.secure.masking.pair_keys import Entropy, MaskPublicKeys
from parties.horizontal.secure.masking.server import MaskingServer
from parties.horizontal.secure.sums import CONTEXT_BYTES
from protocol import vfl_pb2
from protocol.message import Body

# (client -> message) -> client -> reply; lost clients are left out.
Exchange = Callable[[Mapping[str, Body]], Mapping[str, Body]]
# (clients) -> client -> vector, as the client sent it.
CollectVectors = Callable[[Sequence[str]], Mapping[str, NDArray[Any]]]


class MaskedSumHub:
    """Computes mean updates from masked sums.

    Args:
        exchange: function that sends each client its message and returns the replies.
        send: function that sends each client its message; clients send no reply.
        min_contributors: smallest number of members of a sum.
        entropy: source of random bytes.
    """

    dtype = np.dtype(np.int64)  # of the members' vectors

    def __init__(
        self, exchange: Exchange, send: Exchange, min_contributors: int, entropy: Entropy
    ) -> None:
        self._exchange, self._send = exchange, send
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
                members' vectors, ``[d + 2]``.

        Raises:
            PolicyError: too few members are connected at the start or at the end of the sum.
        """
        names = [each.client for each in members]
        if len(set(names)) != len(names):
            raise PolicyError("the list of the members of a masked sum names a client twice")
        sum_ = self._start(names, quorum_count(quorum, len(names)))
        server = MaskingServer(sum_.names, sum_.public_keys, sum_.threshold, sum_.context)
        for name, vector in collect(sum_.names).items():
            if len(vector) == size + 2:  # a member with another vector counts as lost
                server.add(name, vector.view(np.uint64))
        revealed = self._revealed_shares(server.present)
        try:
            total = decode_fixed_point(server.total(revealed), MASKED_FRACTION_BITS)
        except MaskingError as error:
            raise PolicyError(
                f"the sum cannot be unmasked: {error}", "start the disconnected clients again"
            ) from error
        rows, loss = total[-2], total[-1]
        absent = tuple(each for each in members if each.client not in server.present)
        return MeanUpdate(torch.from_numpy(total[:-2] / rows), round(rows), loss / rows, absent)

    def _start(self, names: list[str], floor: int) -> "_Sum":
        """Start a sum: its members send their public keys and their sealed shares.

        If members are lost meanwhile, the sum starts again without them.

        Raises:
            PolicyError: fewer members are connected than a sum needs.
        """
        while True:
            threshold = max(self._min_contributors, floor, len(names) // 2 + 1)
            if threshold > len(names):
                raise PolicyError(
                    f"{len(names)} clients are connected, but a sum needs at least {threshold}",
                    "wait for more clients; how many are needed depends on "
                    "aggregation.min_contributors and training.quorum",
                )
            context = self._entropy(CONTEXT_BYTES)
            start = vfl_pb2.StartSum(members=names, threshold=threshold, context=context)
            replies = self._exchange(dict.fromkeys(names, start))
            keys = {n: each for n, each in replies.items() if isinstance(each, vfl_pb2.MaskKeys)}
            if len(keys) == len(names):
                replies = self._exchange(dict.fromkeys(names, vfl_pb2.MemberKeys(keys=keys)))
                sealed = {
                    n: each.shares
                    for n, each in replies.items()
                    if isinstance(each, vfl_pb2.SealedShares)
                }
                if len(sealed) == len(names):
                    self._send({name: _shares_for(sealed, name) for name in names})
                    public_keys = {
                        n: MaskPublicKeys(each.masking, each.sealing) for n, each in keys.items()
                    }
                    return _Sum(names, public_keys, threshold, context)
                keys = {name: keys[name] for name in sealed}
            names = [name for name in names if name in keys]

    def _revealed_shares(self, present: Sequence[str]) -> dict[str, RevealedShares]:
        replies = self._exchange(dict.fromkeys(present, vfl_pb2.Present(members=present)))
        return {
            name: RevealedShares(dict(each.seeds), dict(each.keys))
            for name, each in replies.items()
            if isinstance(each, vfl_pb2.RevealedShares)
        }


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of which all members sent their keys and shares."""

    names: list[str]
    public_keys: dict[str, MaskPublicKeys]
    threshold: int
    context: bytes


def _shares_for(sealed: Mapping[str, Mapping[str, bytes]], reader: str) -> vfl_pb2.ShareSeed:
    return vfl_pb2.ShareSeed(
        shares={writer: each[reader] for writer, each in sealed.items() if writer != reader}
    )
