"""Workers: the same bytes whoever does the work, and every piece counted."""

import os
import subprocess
import sys
from hashlib import shake_256
from itertools import count
from pathlib import Path
from time import monotonic, sleep

import pytest

from parties.common.workers import workers
from psi.blind import blinded, products
from psi.errors import PsiError
from psi.spread import PIECE, alone

ROOT = Path(__file__).parents[2]
ONE_WORKER = """
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import sleep

from parties.common.workers import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        sleep(60)
"""
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


def test_a_worker_ends_when_its_parent_was_killed(tmp_path: Path) -> None:
    """It would wait for work for ever, and hold what it has inherited."""
    script = tmp_path / "one_worker.py"
    script.write_text(ONE_WORKER)
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=known
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
        deadline = monotonic() + 20
        while is_alive(worker):
            assert monotonic() < deadline
            sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")  # a dead one that nobody waits for has an entry, too
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
