"""Merkle tree over sorted commitments, with the hashes of RFC 6962, section 2.1.

A leaf is SHA-256(0x00 ‖ commitment) and a node is SHA-256(0x01 ‖ left ‖ right). A node of n leaves
has the largest power of two below n on its left. A path names sides instead of an index and the
number of leaves, so a subject learns the depth of the leaf and not how many subjects there are.
"""

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from unlearning.receipts.errors import ReceiptError

_LEAF, _NODE = b"\x00", b"\x01"


class TreeSide(StrEnum):
    """On which side of a node a neighbour of the path stands."""

    LEFT = "left"
    RIGHT = "right"


class Neighbour(NamedTuple):
    """A hash beside the path from a leaf to the root."""

    side: TreeSide
    hash: bytes


def merkle_root(commitments: Iterable[bytes]) -> bytes:
    """Return the root over all commitments in ascending order: 32 bytes.

    Raises:
        ReceiptError: a commitment appears twice.
    """
    return _root(_leaves(commitments))


def inclusion_path(commitments: Iterable[bytes], commitment: bytes) -> list[Neighbour]:
    """Return the neighbours on the way from the leaf of ``commitment`` to the root.

    Raises:
        ReceiptError: ``commitment`` is not among ``commitments``, or one of them appears twice.
    """
    ordered = sorted(commitments)
    leaves = _leaves(ordered)
    if commitment not in ordered:
        raise ReceiptError("the commitment is not in the tree")
    return _path(leaves, ordered.index(commitment))


def root_of_path(commitment: bytes, path: Iterable[Neighbour]) -> bytes:
    """Return the root that the path leads to from ``commitment``: 32 bytes."""
    found = _hash(_LEAF + commitment)
    for side, neighbour in path:
        found = _node(neighbour, found) if side is TreeSide.LEFT else _node(found, neighbour)
    return found


def _leaves(commitments: Iterable[bytes]) -> list[bytes]:
    ordered = sorted(commitments)
    if len(set(ordered)) != len(ordered):
        raise ReceiptError("a commitment appears twice", "make a new salt for every subject")
    return [_hash(_LEAF + each) for each in ordered]


def _root(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) < 2:
        return leaves[0] if leaves else _hash(b"")
    at = _split(len(leaves))
    return _node(_root(leaves[:at]), _root(leaves[at:]))


def _path(leaves: Sequence[bytes], index: int) -> list[Neighbour]:
    if len(leaves) < 2:
        return []
    at = _split(len(leaves))
    if index < at:
        return [*_path(leaves[:at], index), Neighbour(TreeSide.RIGHT, _root(leaves[at:]))]
    return [*_path(leaves[at:], index - at), Neighbour(TreeSide.LEFT, _root(leaves[:at]))]


def _split(count: int) -> int:
    """The largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)


def _node(left: bytes, right: bytes) -> bytes:
    return _hash(_NODE + left + right)


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
