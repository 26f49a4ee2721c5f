"""Ray computes what the process pool computes, to the bit; without it there is a hint."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from five_clients import CONFIG

from configs.errors import ConfigError
from configs.federated import Simulation
from configs.federated_file import read_horizontal
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.networks import fresh
from parties.horizontal.simulation import simulate
from parties.horizontal.simulation.pool import PoolCohort, Workers
from parties.horizontal.simulation.simulated_data import Source

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'vfl[ray]'"
)
LESSON = Lesson(stream="one", batch=16, learning_rate=0.1)
PERSONAL = CONFIG.replace("[seats.server]", '[personal]\nkind = "fedper"\n\n[seats.server]')


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "wards.toml").write_text(PERSONAL)
    return Source(tmp_path / "wards.toml", (), None)


@pytest.fixture(scope="module")
def ray_workers() -> Iterator[Workers]:
    found = simulate.workers(Simulation(backend="ray", workers=2))
    yield found
    found.close()


def story(source: Source, workers: Workers) -> list[object]:
    """Two rounds, so that the clients' own parameters come back to them, a line and a request."""
    agreement = read_horizontal(source.config).agreement
    members = [Member(name) for name in agreement.spokes]
    cohort, model = PoolCohort(agreement.spokes, source, workers, 1.0), fresh(agreement, "original")
    first = cohort.mean(members, LESSON, {"model": model})
    model = model + first.change.float()
    cohort.follow("other", "original")
    second = cohort.mean(members, LESSON, {"model": model})
    cohort.attend("leaver")
    gone = cohort.read(agreement.spokes, "forgotten", model)
    cohort.purge()
    left = cohort.read(agreement.spokes, "learn", model)
    return [first.change, first.loss, second.change, second.loss, gone, left]


@needs_ray
@pytest.mark.slow
def test_ray_gives_the_bits_of_the_process_pool(source: Source, ray_workers: Workers) -> None:
    processes = simulate.workers(Simulation(workers=1))
    try:
        wanted = story(source, processes)
    finally:
        processes.close()
    found = story(source, ray_workers)
    for ours, theirs in zip(found, wanted, strict=True):
        if isinstance(ours, torch.Tensor):
            assert torch.equal(ours, theirs)
        else:
            assert ours == theirs


@needs_ray
@pytest.mark.slow
def test_an_error_of_a_task_is_told_as_it_was_raised(tmp_path: Path, ray_workers: Workers) -> None:
    (tmp_path / "wards.toml").write_text(CONFIG.replace("pathological", "unheard-of"))
    (tmp_path / "good.toml").write_text(CONFIG)
    model = fresh(read_horizontal(tmp_path / "good.toml").agreement, "original")
    cohort = PoolCohort(["client-0"], Source(tmp_path / "wards.toml", (), None), ray_workers, 1.0)
    with pytest.raises(ConfigError, match="partition") as error:
        cohort.read(["client-0"], "learn", model)
    assert "Traceback" not in str(error.value)


@needs_ray
@pytest.mark.slow
def test_a_vector_is_put_into_the_store_once(
    source: Source, ray_workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted, post = list[str](), ray_workers.post

    def noted(name: str, vector: torch.Tensor) -> object:
        posted.append(name)
        return post(name, vector)

    monkeypatch.setattr(ray_workers, "post", noted)
    agreement = read_horizontal(source.config).agreement
    cohort, model = PoolCohort(agreement.spokes, source, ray_workers, 1.0), fresh(agreement, "a")
    cohort.read(agreement.spokes, "held", model)
    cohort.read(agreement.spokes, "learn", model)
    assert posted == ["1"]


def test_without_ray_a_hint_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "parties.horizontal.simulation.ray_workers", raising=False)
    with pytest.raises(ConfigError, match="ray is not installed here") as error:
        simulate.workers(Simulation(backend="ray"))
    assert "vfl[ray]" in error.value.hint


@pytest.mark.slow
def test_ray_is_imported_only_when_it_is_chosen() -> None:
    asked = "import sys, parties.horizontal.simulation.simulate; print('ray' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60
    )
    assert said.stdout == "False\n"


@pytest.mark.parametrize("more", [{"backend": "processes"}, {"backend": "ray", "workers": 2}])
def test_an_address_goes_with_a_cluster(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="address goes with backend 'ray' alone"):
        Simulation.model_validate({"address": "10.0.0.1:6379", **more})
