"""Compiled loops: the same bytes as NumPy's, and not needed."""

import numpy as np
import pytest
from psi_run import SESSION

from psi.loops import PLAIN, WORTH_COMPILING, Loops, compiled, loops
from psi.oprf import Readings, positions
from psi.terms import Terms

NUMBA = "Numba is not installed: pip install 'vfl[fast]'"


@pytest.fixture
def fast() -> Loops:
    found = compiled()
    if found is None:
        pytest.skip(NUMBA)
    return found


@pytest.mark.parametrize(("count", "rows"), [(0, 64), (1, 8192), (5000, 8192), (70_000, 122_560)])
def test_every_loop_gives_the_same_bytes(fast: Loops, count: int, rows: int) -> None:
    draw = np.random.default_rng(count)
    words = draw.integers(0, 2**32, (count, 4), np.uint32)
    words[:2] = 2**32 - 1
    column = draw.integers(0, 256, rows // 8, np.uint8)
    for lane in range(4):
        plain, quick = PLAIN.places(words, lane, rows), fast.places(words, lane, rows)
        assert np.array_equal(plain, quick)
        assert PLAIN.zeros_at(plain, rows).tobytes() == fast.zeros_at(quick, rows).tobytes()
        for shift in (0, 3, 7):
            octets = draw.integers(0, 256, (2, count), np.uint8)
            octets[1] = octets[0]
            PLAIN.read_bits(column, plain, shift, octets[0])
            fast.read_bits(column, quick, shift, octets[1])
            assert octets[0].tobytes() == octets[1].tobytes()


def test_outputs_of_the_oprf_are_the_same_bytes(fast: Loops) -> None:
    terms = Terms(session=SESSION, member="shop", leader_size=3000, member_size=3000)
    hashes = np.random.default_rng(1).integers(0, 256, (3000, 16), np.uint8)
    found = []
    for each in (PLAIN, fast):
        readings = Readings(3000, terms.width, each)
        columns = positions(b"k" * 16, SESSION, hashes, terms.rows, each)
        for where, _ in zip(columns, range(terms.width), strict=False):
            readings.read(each.zeros_at(where[:1500], terms.rows), where)
        found.append(b"".join(part.tobytes() for part in readings.outputs(terms)))
    assert found[0] == found[1]


def test_small_sets_and_installations_without_numba_use_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert loops(WORTH_COMPILING - 1) is PLAIN
    compiled.cache_clear()
    monkeypatch.setattr("psi.loops.find_spec", lambda _: None)
    assert loops(WORTH_COMPILING) is PLAIN
    compiled.cache_clear()
