"""Ray gives bit-identical results to the process pool; without Ray there is a hint."""

import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from clients import row_source
from five_clients import CONFIG

from configs.config_file import read_config
from configs.errors import ConfigError
from configs.federated import SimulationSettings
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.horizontal.simulation import simulate
from parties.horizontal.simulation.pool import ClientWorkers, PoolCohort
from parties.horizontal.simulation.simulated_data import SimulationSource

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'vfl[ray]'"
)
LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
PERSONAL = CONFIG.replace("[settings.server]", '[personal]\nkind = "fedper"\n\n[settings.server]')


@pytest.fixture
def source(tmp_path: Path) -> SimulationSource:
    (tmp_path / "wards.toml").write_text(PERSONAL)
    return row_source(tmp_path / "wards.toml", (), None)


@pytest.fixture(scope="module")
def ray_workers() -> Iterator[ClientWorkers]:
    workers = simulate.start_workers(SimulationSettings(backend="ray", workers=2))
    yield workers
    workers.close()


def run_rounds(source: SimulationSource, workers: ClientWorkers) -> list[object]:
    """Return the results of two rounds, a second branch and a request."""
    agreement = read_config(source.config, HORIZONTAL).agreement
    members = [Member(name) for name in agreement.spokes]
    cohort, model = (
        PoolCohort(agreement.spokes, source, workers, 1.0),
        initial_parameters(agreement, "original"),
    )
    first = cohort.mean_update(members, LOCAL_TASK, {"model": model})
    model = model + first.delta.float()
    cohort.switch_branch("other", "original")
    second = cohort.mean_update(members, LOCAL_TASK, {"model": model})
    cohort.select_request("leaver")
    forgotten = cohort.evaluate(agreement.spokes, "forgotten", model)
    cohort.purge()
    remaining = cohort.evaluate(agreement.spokes, "learn", model)
    return [first.delta, first.loss, second.delta, second.loss, forgotten, remaining]


@needs_ray
@pytest.mark.slow
def test_ray_equals_the_process_pool_bit_for_bit(
    source: SimulationSource, ray_workers: ClientWorkers
) -> None:
    processes = simulate.start_workers(SimulationSettings(workers=1))
    try:
        expected = run_rounds(source, processes)
    finally:
        processes.close()
    results = run_rounds(source, ray_workers)
    for ours, theirs in zip(results, expected, strict=True):
        if isinstance(ours, torch.Tensor):
            assert torch.equal(ours, theirs)
        else:
            assert ours == theirs


@needs_ray
@pytest.mark.slow
def test_error_of_a_task_keeps_its_type_and_message(
    tmp_path: Path, ray_workers: ClientWorkers
) -> None:
    (tmp_path / "wards.toml").write_text(CONFIG.replace("pathological", "unheard-of"))
    (tmp_path / "good.toml").write_text(CONFIG)
    model = initial_parameters(
        read_config(tmp_path / "good.toml", HORIZONTAL).agreement, "original"
    )
    cohort = PoolCohort(
        ["client-0"], row_source(tmp_path / "wards.toml", (), None), ray_workers, 1.0
    )
    with pytest.raises(ConfigError, match="partition") as error:
        cohort.evaluate(["client-0"], "learn", model)
    assert "Traceback" not in str(error.value)


@needs_ray
@pytest.mark.slow
def test_gpus_that_the_cluster_lacks_are_refused(ray_workers: ClientWorkers) -> None:
    nodes = importlib.import_module("parties.horizontal.simulation.ray_nodes")
    assert ray_workers.parallel == 2
    nodes.require_gpus(None)
    with pytest.raises(ConfigError, match="num_gpus is 1000, but the Ray cluster has"):
        nodes.require_gpus(1000.0)


def test_shipped_data_contain_no_path_of_this_machine(source: SimulationSource) -> None:
    shipped = pickle.dumps(source.read_data(source).without_paths())
    assert str(source.config.parent).encode() not in shipped
    assert b"wards.toml" not in shipped


@needs_ray
@pytest.mark.slow
def test_vector_is_stored_once(
    source: SimulationSource, ray_workers: ClientWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted, put = list[str](), ray_workers.put

    def record_put(name: str, vector: torch.Tensor) -> object:
        posted.append(name)
        return put(name, vector)

    monkeypatch.setattr(ray_workers, "put", record_put)
    agreement = read_config(source.config, HORIZONTAL).agreement
    cohort, model = (
        PoolCohort(agreement.spokes, source, ray_workers, 1.0),
        initial_parameters(agreement, "a"),
    )
    cohort.evaluate(agreement.spokes, "test", model)
    cohort.evaluate(agreement.spokes, "learn", model)
    assert posted == ["1"]


def test_missing_ray_gives_an_installation_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "parties.horizontal.simulation.ray_workers", raising=False)
    with pytest.raises(ConfigError, match="ray is not installed") as error:
        simulate.start_workers(SimulationSettings(backend="ray"))
    assert "vfl[ray]" in error.value.hint


@pytest.mark.slow
def test_ray_is_imported_only_when_it_is_chosen() -> None:
    script = "import sys, parties.horizontal.simulation.simulate; print('ray' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert process.stdout == "False\n"


@pytest.mark.parametrize("more", [{"backend": "processes"}, {"backend": "ray", "workers": 2}])
def test_address_without_a_ray_cluster_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="legal only with backend = 'ray'"):
        SimulationSettings.model_validate({"address": "10.0.0.1:6379", **more})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "legal only with backend = 'ray'"),
        ({"backend": "ray", "num_gpus": 1.5}, "whole number"),
    ],
)
def test_gpus_that_no_client_can_use_are_refused(more: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SimulationSettings.model_validate({"num_gpus": 0.5, **more})
