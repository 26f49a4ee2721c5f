"""The types that all files here share: arrays of bytes and of positions, and entropy."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]  # of rows, of slots
ColumnPlaces = npt.NDArray[np.int64] | npt.NDArray[np.uint32]  # of bits in a column
Words = npt.NDArray[np.uint32]
Entropy = Callable[[int], bytes]  # as many uniform bytes as asked for
