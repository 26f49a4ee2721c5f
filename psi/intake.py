"""Intake of points: exactly as many come as were declared, in blocks."""

import numpy as np

from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.shared_types import Bytes


class Intake:
    """The points of ``whose`` list of ``count``, as they come."""

    def __init__(self, whose: str, count: int) -> None:
        self.whose = whose
        self.left = self._count = count
        self._blocks: list[bytes] = []

    @property
    def seen(self) -> int:
        """How many points came so far."""
        return self._count - self.left

    def take(self, block: Bytes) -> bytes:
        """The points of the next block, [n, 32] uint8.

        Raises:
            PsiError: a wrong type or shape, no point, or more points than are left.
        """
        shaped = block.dtype == np.uint8 and block.ndim == 2 and block.shape[1] == POINT_BYTES
        if not shaped or not 1 <= len(block) <= self.left:
            raise PsiError(
                f"{self.whose}: a block of points is {block.dtype} {list(block.shape)}, "
                f"legal is uint8 [1 to {self.left}, {POINT_BYTES}]",
                hint=f"{self._count} points were declared for this session, and no more are taken",
            )
        points = block.tobytes()
        self._blocks.append(points)
        self.left -= len(block)
        return points

    def whole(self) -> bytes:
        """All points, 32 bytes each.

        Raises:
            PsiError: some are missing.
        """
        if self.left:
            raise PsiError(f"{self.whose} ended after {self.seen} points, legal are {self._count}")
        return b"".join(self._blocks)
