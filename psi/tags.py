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
    """The permutation that sorts ``tags`` [n, 12] as byte strings: [n] int64."""
    high, low = _words(tags)
    order = np.argsort(high)
    ordered = high.take(order)
    return np.lexsort((low, high)) if (ordered[1:] == ordered[:-1]).any() else order


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
    order = tag_order(own)
    ordered = own.take(order, axis=0)
    if (ordered[1:] == ordered[:-1]).all(axis=1).any():
        raise PsiError(
            f"{who}: two rows of {who} have the same tag",
            hint="by chance this happens with probability below 2^-40; start a new session",
        )
    places = _search(ordered, received)
    inside = places < len(own)
    matches = int((ordered[places[inside]] == received[inside]).all(axis=1).sum())
    if matches < len(received):
        raise PsiError(
            f"leader: no row of {who} matches {len(received) - matches} of the "
            f"{len(received)} tags that the leader sent",
            hint="the leader is faulty or dishonest, or the sessions differ",
        )
    return np.sort(order[places])


def _search(ordered: Bytes, wanted: Bytes) -> Positions:
    """The number of tags in ``ordered`` [n, 12] below each of the tags ``wanted`` [k, 12]: [k]."""
    (high, low), (wanted_high, wanted_low) = _words(ordered), _words(wanted)
    places = np.searchsorted(high, wanted_high)
    for _ in range(len(ordered)):  # one pass, unless two tags have the same first eight bytes
        equal = high.take(places, mode="clip") == wanted_high
        below = (places < len(high)) & equal & (low.take(places, mode="clip") < wanted_low)
        if not below.any():
            break
        places += below
    return places


def _refuse_disorder(received: Bytes, who: str) -> None:
    """Check type, shape and strictly ascending order, which excludes repeated tags."""
    if received.dtype != np.uint8 or received.ndim != 2 or received.shape[1] != TAG_BYTES:
        raise PsiError(
            f"leader: the tags for {who} are an array of type {received.dtype} and shape "
            f"{list(received.shape)}; expected type uint8 and shape [k, {TAG_BYTES}]"
        )
    high, low = _words(received)
    ascending = (high[:-1] < high[1:]) | ((high[:-1] == high[1:]) & (low[:-1] < low[1:]))
    if not ascending.all():
        raise PsiError(
            f"leader: the tags for {who} are not in ascending order, or a tag is repeated",
            hint="the leader is faulty or dishonest",
        )


def _words(tags: Bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """The first eight and the last four bytes of ``tags`` [n, 12] as numbers: [n] and [n]."""
    words = np.ascontiguousarray(tags).view(">u4").astype(np.uint32)
    return words[:, 0].astype(np.uint64) << np.uint64(32) | words[:, 1], words[:, 2]
