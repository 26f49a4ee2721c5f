"""Worker processes: results do not depend on their number, and each chunk is counted."""

import os
import subprocess
import sys
from hashlib import shake_256
from itertools import count
from pathlib import Path
from time import monotonic, sleep

import pytest

from parties.common.workers import parallel_workers
from psi.errors import PsiError
from psi.hardened_oprf import blind_ids, multiply_points
from psi.parallel import CHUNK_POINTS, serial_map

ROOT = Path(__file__).parents[3]
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
IDS = [b"person %d" % number for number in range(3 * CHUNK_POINTS + 7)]


def fixed(size: int) -> bytes:
    """Return fixed bytes in place of random ones."""
    return shake_256(b"workers").digest(size)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_results_do_not_depend_on_the_number_of_workers(number: int) -> None:
    steps = count()
    with parallel_workers(number, lambda: next(steps)) as parallel_map:
        blinded = blind_ids(IDS, b"session", fixed, parallel_map)
    assert blinded == blind_ids(IDS, b"session", fixed, serial_map)
    assert next(steps) == 4


@pytest.mark.slow
def test_error_of_a_worker_keeps_its_type_and_text() -> None:
    points, scalars = blind_ids(IDS, b"session", fixed, serial_map)
    at = 32 * (CHUNK_POINTS + 3)
    broken = points[:at] + bytes(32) + points[at + 32 :]
    with (
        parallel_workers(2, lambda: None) as parallel_map,
        pytest.raises(PsiError, match=f"shop: evaluated IDs, point {CHUNK_POINTS + 3}: "),
    ):
        multiply_points(scalars, broken, "shop: evaluated IDs", 0, parallel_map)


@pytest.mark.slow
def test_worker_exits_when_its_parent_is_killed(tmp_path: Path) -> None:
    """Otherwise the worker would wait for work forever."""
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
    stat = Path(f"/proc/{process}/stat")  # an ended process without a wait() has an entry too
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
