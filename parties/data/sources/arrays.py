"""Type names that all data sources use: NumPy arrays, and a function that counts rows read."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Index: TypeAlias = npt.NDArray[np.int64]
# Labels: class indices [rows], numbers [rows], or for several binary labels 0 or 1 [rows, labels].
Labels: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Images: TypeAlias = npt.NDArray[np.float32]
# Called with the number of rows read since the last call.
Progress: TypeAlias = Callable[[int], None]
