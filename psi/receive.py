"""Receive a list of points in blocks; the list must have the declared number of points."""

import numpy as np

from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.shared_types import Bytes


class PointReceiver:
    """Collects the blocks of one list of ``count`` points; ``what`` names the list in errors.

    Attributes:
        left: the number of points that are still missing.
    """

    def __init__(self, what: str, count: int) -> None:
        self.what = what
        self.left = self._count = count
        self._blocks: list[bytes] = []

    @property
    def received(self) -> int:
        """The number of points received so far."""
        return self._count - self.left

    def add(self, block: Bytes) -> bytes:
        """Store the next block, [n, 32] uint8; return the points of this block, n times 32 bytes.

        Raises:
            PsiError: ``block`` is empty, has a wrong type or shape, or has more points than
                declared.
        """
        shaped = block.dtype == np.uint8 and block.ndim == 2 and block.shape[1] == POINT_BYTES
        if not shaped or not 1 <= len(block) <= self.left:
            raise PsiError(
                f"{self.what}: a block of points is an array of type {block.dtype} and shape "
                f"{list(block.shape)}; expected type uint8 and shape [1 to {self.left}, "
                f"{POINT_BYTES}]",
                hint=f"{self._count} points were declared for this session; more are refused",
            )
        points = block.tobytes()
        self._blocks.append(points)
        self.left -= len(block)
        return points

    def all_points(self) -> bytes:
        """All points, 32 bytes each.

        Raises:
            PsiError: points are missing.
        """
        if self.left:
            raise PsiError(
                f"{self.what} ended after {self.received} points, expected {self._count}",
                hint="both sides must declare the same set sizes",
            )
        return b"".join(self._blocks)
