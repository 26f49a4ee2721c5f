"""Tags: 12 bytes of the OPRF output, which identify the common rows to a member.

The leader sends a member the tags of the common rows in ascending order, so that the order of the
tags contains no information. The member searches for the received tags among the tags of its rows.
"""

import numpy as np
import numpy.typing as npt

from psi.errors import PsiError
from psi.parameters import TAG_BYTES
from psi.shared_types import Bytes, Positions


def tag_order(tags: Bytes) -> Positions:
    """The stable permutation that sorts ``tags`` [n, 12] as byte strings: [n] int64."""
    words = np.ascontiguousarray(tags).view(">u4").astype(np.uint32)
    high = words[:, 0].astype(np.uint64) << np.uint64(32) | words[:, 1]
    return np.lexsort((words[:, 2], high))


def sorted_tags(tags: Bytes, rows: Positions) -> Bytes:
    """Return the tags of the rows with the indices ``rows``, ascending: [k, 12] uint8.

    ``tags`` are the tags of all rows, [n, 12], and ``rows`` is [k].
    """
    selected = tags.take(rows, axis=0)
    return selected.take(tag_order(selected), axis=0)


def find_tags(own: Bytes, received: Bytes, who: str) -> Positions:
    """Return the indices of the member's rows whose tags were received: [k] int64, ascending.

    ``own`` are the tags of all rows of the member, [n, 12]; ``received`` are the tags that the
    leader sent, [k, 12]. ``who`` is the name of the member, for errors.

    Raises:
        PsiError: ``received`` is not an ascending list of tags, the member has no row for one of
            the tags, or two rows of the member have the same tag.
    """
    _refuse_disorder(received, who)
    both = np.concatenate([own, received])
    order = tag_order(both)
    equal = np.flatnonzero(_same_as_next(both.take(order, axis=0)))
    first, second = order[equal], order[equal + 1]
    if (second < len(own)).any():
        raise PsiError(
            f"{who}: two rows of {who} have the same tag",
            hint="by chance this happens with probability below 2^-40; start a new session",
        )
    if len(first) != len(received):
        raise PsiError(
            f"leader: no row of {who} matches {len(received) - len(first)} of the "
            f"{len(received)} tags that the leader sent",
            hint="the leader is faulty or dishonest, or the sessions differ",
        )
    return np.sort(first)


def _refuse_disorder(received: Bytes, who: str) -> None:
    """Check type, shape and strictly ascending order, which excludes repeated tags."""
    if received.dtype != np.uint8 or received.ndim != 2 or received.shape[1] != TAG_BYTES:
        raise PsiError(
            f"leader: the tags for {who} are an array of type {received.dtype} and shape "
            f"{list(received.shape)}; expected type uint8 and shape [k, {TAG_BYTES}]"
        )
    in_place = tag_order(received) == np.arange(len(received))
    if not in_place.all() or _same_as_next(received).any():
        raise PsiError(
            f"leader: the tags for {who} are not in ascending order, or a tag is repeated",
            hint="the leader is faulty or dishonest",
        )


def _same_as_next(tags: Bytes) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (tags[1:] == tags[:-1]).all(axis=1)
    return same
