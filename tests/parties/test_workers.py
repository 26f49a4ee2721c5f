"""Workers: the same bytes whoever does the work, and every piece counted."""

from hashlib import shake_256
from itertools import count

import pytest

from parties.workers import workers
from psi.blind import blinded, products
from psi.errors import PsiError
from psi.spread import PIECE, alone

IDS = [b"person %d" % number for number in range(3 * PIECE + 7)]


def fixed(size: int) -> bytes:
    """Entropy that is the same every time."""
    return shake_256(b"workers").digest(size)


@pytest.mark.parametrize("number", [1, 2])
def test_the_bytes_do_not_depend_on_the_workers(number: int) -> None:
    steps = count()
    with workers(number, lambda: next(steps)) as spread:
        found = blinded(IDS, b"session", fixed, spread)
    assert found == blinded(IDS, b"session", fixed, alone)
    assert next(steps) == 4


def test_a_refusal_comes_back_from_a_worker_in_its_own_words() -> None:
    points, scalars = blinded(IDS, b"session", fixed, alone)
    at = 32 * (PIECE + 3)
    broken = points[:at] + bytes(32) + points[at + 32 :]
    with (
        workers(2, lambda: None) as spread,
        pytest.raises(PsiError, match=f"shop: answers, point {PIECE + 3}: the identity"),
    ):
        products(scalars, broken, "shop: answers", 0, spread)
