"""Types of the whole package: arrays of bytes and of positions, and the source of entropy."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]  # numbers of rows or of slots
ColumnPlaces = npt.NDArray[np.int64] | npt.NDArray[np.uint32]  # numbers of bits in a column
Words = npt.NDArray[np.uint32]
Entropy = Callable[[int], bytes]  # returns the requested number of uniform random bytes
