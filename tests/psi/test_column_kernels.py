"""The kernels of Numba: the same bytes as those of NumPy, and an optional dependency."""

import numpy as np
import pytest
from psi_run import SESSION

from psi.column_kernels import (
    NUMBA_MIN_BUCKETS,
    NUMPY_KERNELS,
    ColumnKernels,
    numba_kernels,
    select_kernels,
)
from psi.oprf import RowBits, column_positions
from psi.parameters import PsiParameters

NUMBA = "Numba is not installed: pip install 'vfl[fast]'"


@pytest.fixture
def fast() -> ColumnKernels:
    kernels = numba_kernels()
    if kernels is None:
        pytest.skip(NUMBA)
    return kernels


@pytest.mark.parametrize(("count", "rows"), [(0, 64), (1, 8192), (5000, 8192), (70_000, 122_560)])
def test_every_kernel_gives_the_same_bytes(fast: ColumnKernels, count: int, rows: int) -> None:
    draw = np.random.default_rng(count)
    words = draw.integers(0, 2**32, (count, 4), np.uint32)
    words[:2] = 2**32 - 1
    column = draw.integers(0, 256, rows // 8, np.uint8)
    for lane in range(4):
        plain = NUMPY_KERNELS.scale_lane(words, lane, rows)
        quick = fast.scale_lane(words, lane, rows)
        assert np.array_equal(plain, quick)
        packed = NUMPY_KERNELS.pack_zeros(plain, rows)
        assert packed.tobytes() == fast.pack_zeros(quick, rows).tobytes()
        for shift in (0, 3, 7):
            octets = draw.integers(0, 256, (2, count), np.uint8)
            octets[1] = octets[0]
            NUMPY_KERNELS.read_bits(column, plain, shift, octets[0])
            fast.read_bits(column, quick, shift, octets[1])
            assert octets[0].tobytes() == octets[1].tobytes()


def test_outputs_of_the_oprf_are_the_same_bytes(fast: ColumnKernels) -> None:
    parameters = PsiParameters(session=SESSION, member="shop", leader_size=3000, member_size=3000)
    hashes = np.random.default_rng(1).integers(0, 256, (3000, 16), np.uint8)
    outputs = []
    for each in (NUMPY_KERNELS, fast):
        row_bits = RowBits(3000, parameters.width, each)
        columns = column_positions(b"k" * 16, SESSION, hashes, parameters.rows, each)
        for where, _ in zip(columns, range(parameters.width), strict=False):
            row_bits.read(each.pack_zeros(where[:1500], parameters.rows), where)
        outputs.append(b"".join(part.tobytes() for part in row_bits.outputs(parameters)))
    assert outputs[0] == outputs[1]


def test_small_sets_and_installations_without_numba_use_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert select_kernels(NUMBA_MIN_BUCKETS - 1) is NUMPY_KERNELS
    numba_kernels.cache_clear()
    monkeypatch.setattr("psi.column_kernels.find_spec", lambda _: None)
    assert select_kernels(NUMBA_MIN_BUCKETS) is NUMPY_KERNELS
    numba_kernels.cache_clear()
