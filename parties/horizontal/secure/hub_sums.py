"""The server in sums under masks: who gathers, whose vectors come, what those who are left open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Mean, Member, needed
from parties.horizontal.secure.client_sums import BITS
from parties.horizontal.secure.masking.client import MaskingError, Opened
from parties.horizontal.secure.masking.fixed_point import decoded
from parties.horizontal.secure.masking.pair_keys import Entropy, Publics
from parties.horizontal.secure.masking.server import MaskingServer
from parties.horizontal.secure.sums import CONTEXT
from protocol import vfl_pb2
from protocol.message import Body

# Say each of these clients its own body, and take their answers; who is lost is left out.
Exchange = Callable[[Mapping[str, Body]], Mapping[str, Body]]
Taught = Callable[[Sequence[str]], Mapping[str, NDArray[Any]]]  # what members say, as it came


class HubSums:
    """Makes sums; ``least`` is how many must be there at the end."""

    dtype = np.dtype(np.int64)  # of what members say

    def __init__(self, exchange: Exchange, tell: Exchange, least: int, entropy: Entropy) -> None:
        self._exchange, self._tell, self._least, self._entropy = exchange, tell, least, entropy

    def mean(self, members: Sequence[Member], quorum: float, size: int, taught: Taught) -> Mean:
        """The mean by rows of what the members learned; ``taught`` has those teach who gathered.

        Raises:
            PolicyError: too few are there, in the beginning or in the end.
        """
        names = [each.client for each in members]
        if len(set(names)) != len(names):
            raise PolicyError("under masks a client stands in a sum once")
        round_ = self._gathered(names, needed(quorum, len(names)))
        server = MaskingServer(round_.names, round_.publics, round_.threshold, round_.context)
        for name, vector in taught(round_.names).items():
            if len(vector) == size + 2:  # who says another is as good as gone
                server.add(name, vector.view(np.uint64))
        opened = self._opened(server.there)
        try:
            total = decoded(server.total(opened), BITS)
        except MaskingError as error:
            raise PolicyError(f"no sum: {error}", "are the clients still there?") from error
        rows, loss = total[-2], total[-1]
        absent = tuple(each for each in members if each.client not in server.there)
        return Mean(torch.from_numpy(total[:-2] / rows), round(rows), loss / rows, absent)

    def _gathered(self, names: list[str], floor: int) -> "_Round":
        """Have them say their keys and deal shares; whoever is lost is left out of a new beginning.

        Raises:
            PolicyError: fewer are there than a sum needs.
        """
        while True:
            threshold = max(self._least, floor, len(names) // 2 + 1)
            if threshold > len(names):
                raise PolicyError(
                    f"{len(names)} clients are there, and a sum needs {threshold}",
                    "aggregation.least and training.quorum say how many; wait for more clients",
                )
            context = self._entropy(CONTEXT)
            gather = vfl_pb2.Gather(members=names, threshold=threshold, context=context)
            said = self._exchange(dict.fromkeys(names, gather))
            keys = {n: each for n, each in said.items() if isinstance(each, vfl_pb2.MaskKeys)}
            if len(keys) == len(names):
                said = self._exchange(dict.fromkeys(names, vfl_pb2.Pairs(keys=keys)))
                dealt = {
                    n: each.shares for n, each in said.items() if isinstance(each, vfl_pb2.Sealed)
                }
                if len(dealt) == len(names):
                    self._tell({name: _deal(dealt, name) for name in names})
                    publics = {n: Publics(each.masking, each.sealing) for n, each in keys.items()}
                    return _Round(names, publics, threshold, context)
                keys = {name: keys[name] for name in dealt}
            names = [name for name in names if name in keys]

    def _opened(self, there: Sequence[str]) -> dict[str, Opened]:
        said = self._exchange(dict.fromkeys(there, vfl_pb2.There(members=there)))
        return {
            name: Opened(dict(each.seeds), dict(each.keys))
            for name, each in said.items()
            if isinstance(each, vfl_pb2.Opened)
        }


@dataclass(frozen=True, slots=True)
class _Round:
    """A sum whose members have all said their keys and dealt their shares."""

    names: list[str]
    publics: dict[str, Publics]
    threshold: int
    context: bytes


def _deal(dealt: Mapping[str, Mapping[str, bytes]], reader: str) -> vfl_pb2.Deal:
    return vfl_pb2.Deal(
        shares={writer: each[reader] for writer, each in dealt.items() if writer != reader}
    )
