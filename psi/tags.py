"""Tags: how the leader names common rows to a member that alone can read them.

A tag is 12 bytes of the OPRF output. The leader sends the tags of the common rows in ascending
order, so the order says nothing; the member looks them up among its own.
"""

import numpy as np
import numpy.typing as npt

from psi.errors import PsiError
from psi.shared_types import Bytes, Positions
from psi.terms import TAG_BYTES


def ascending(tags: Bytes) -> Positions:
    """The permutation that sorts ``tags`` [n, 12] as byte strings; equal tags keep their order."""
    words = np.ascontiguousarray(tags).view(">u4").astype(np.uint32)
    high = words[:, 0].astype(np.uint64) << np.uint64(32) | words[:, 1]
    return np.lexsort((words[:, 2], high))


def find(own: Bytes, received: Bytes, who: str) -> Positions:
    """The rows of ``own`` [n, 12] that ``received`` [k, 12] names, ascending: [k] int64.

    Raises:
        PsiError: ``received`` is no ascending list of tags, or ``who`` does not hold one of them,
            or two of its own rows have one tag.
    """
    _refuse_disorder(received, who)
    both = np.concatenate([own, received])
    order = ascending(both)
    equal = np.flatnonzero(_same_as_next(both.take(order, axis=0)))
    first, second = order[equal], order[equal + 1]
    if (second < len(own)).any():
        raise PsiError(
            f"{who}: two of its own rows have one tag",
            hint="by chance this happens with probability below 2^-40; start a new session",
        )
    if len(first) != len(received):
        raise PsiError(
            f"leader: tags name {len(received) - len(first)} rows that {who} does not hold",
            hint="the leader is faulty or dishonest, or the sessions differ",
        )
    return np.sort(first)


def _refuse_disorder(received: Bytes, who: str) -> None:
    """Check type, shape and strictly ascending order, which excludes a repeated tag."""
    if received.dtype != np.uint8 or received.ndim != 2 or received.shape[1] != TAG_BYTES:
        raise PsiError(
            f"leader: tags for {who} are {received.dtype} {list(received.shape)}, "
            f"legal is uint8 [k, {TAG_BYTES}]"
        )
    in_place = ascending(received) == np.arange(len(received))
    if not in_place.all() or _same_as_next(received).any():
        raise PsiError(f"leader: tags for {who} are not ascending, or one is repeated")


def _same_as_next(tags: Bytes) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (tags[1:] == tags[:-1]).all(axis=1)
    return same
