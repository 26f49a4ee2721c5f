"""The server in masked sums: the server collects masked vectors and unmasks their sum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import AbsentClientError
from parties.horizontal.secure.masked_client import MASKED_FRACTION_BITS
from parties.horizontal.secure.masking.client import MaskingError, RevealedShares
from parties.horizontal.secure.masking.fixed_point import Floats, decode_fixed_point
from parties.horizontal.secure.masking.pair_keys import Entropy, MaskPublicKeys
from parties.horizontal.secure.masking.server import MaskingServer
from parties.horizontal.secure.sum_hub import CollectVectors, SumHub
from protocol import vfl_pb2
from protocol.message import Body

# (client -> message) -> client -> reply; lost clients are left out.
Exchange = Callable[[Mapping[str, Body]], Mapping[str, Body]]


class MaskedSumHub(SumHub):
    """Computes mean updates from masked sums.

    Args:
        exchange: function that sends each client its message and returns the replies.
        send: function that sends each client its message; clients send no reply.
        min_contributors: smallest number of members of a sum.
        entropy: source of random bytes.
    """

    dtype = np.dtype(np.int64)
    repeated = "the list of the members of a masked sum names a client twice"

    def __init__(
        self, exchange: Exchange, send: Exchange, min_contributors: int, entropy: Entropy
    ) -> None:
        super().__init__(min_contributors, entropy)
        self._exchange, self._send = exchange, send

    def _total(
        self, names: list[str], floor: int, count: int, collect: CollectVectors
    ) -> tuple[Floats, Sequence[str]]:
        sum_ = self._start(names, floor)
        server = MaskingServer(sum_.names, sum_.public_keys, sum_.threshold, sum_.context)
        for name, vector in collect(sum_.names).items():
            if len(vector) == count:  # a member with another vector counts as lost
                server.add(name, vector.view(np.uint64))
        present = server.present
        if len(present) < sum_.threshold:  # no client would reveal its shares
            problem = f"only {len(present)} of {len(sum_.names)} clients of the sum replied"
            raise AbsentClientError.of(
                f"{problem}, expected at least {sum_.threshold}", sum_.names, present
            )
        revealed = self._revealed_shares(present)
        try:
            total = decode_fixed_point(server.total(revealed), MASKED_FRACTION_BITS)
        except MaskingError as error:
            if len(revealed) == len(present):
                raise PolicyError(
                    f"the sum cannot be unmasked: {error}", "train again from the last checkpoint"
                ) from error
            problem = f"the sum cannot be unmasked: {error}"
            raise AbsentClientError.of(problem, present, revealed) from error
        return total, server.present

    def _start(self, names: list[str], floor: int) -> "_Sum":
        """Start a sum: its members send their public keys and their sealed shares.

        If members are lost meanwhile, the sum starts again without them.

        Raises:
            AbsentClientError: fewer members are connected than a sum needs.
            PolicyError: the sum has fewer members than it needs.
        """
        members = names
        while True:
            threshold = self._threshold(names, floor)
            if threshold > len(names):
                raise self._too_few(members, names, threshold)
            start = self._new_sum(names, threshold)
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
                    return _Sum(names, public_keys, threshold, start.context)
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
