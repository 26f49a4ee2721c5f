"""Tests of planned runs: seeds, poisoned runs, digests."""

from pathlib import Path

import pytest
from bench_runs import write_list

from configs.config_file import read_config
from configs.experiments import read_experiments
from parties.experiments.bench.benches import plan_vertical_runs
from parties.experiments.bench.blocks import read_fedora_blocks
from parties.experiments.bench.plan import Scope, run_digest
from parties.vertical.methods.registry import SCHEMA

SHIPPED = Path(__file__).parents[4] / "configs" / "bench" / "fedora.toml"


def test_every_shipped_run_is_a_legal_config() -> None:
    listed = read_experiments(SHIPPED)
    runs = plan_vertical_runs(listed, SHIPPED.parent, Scope(seeds=1, gpu=True))
    assert {run.experiment for run in runs} == {each.name for each in listed.experiment}
    for run in runs:
        assert bool(run.agreement.unlearn[0].backdoor) == run.poisoned
        assert len(run.agreement.unlearn) == 1
        keys = [change.partition("=")[0] for change in run.changes]
        assert len(set(keys)) == len(keys)  # --set refuses a repeated key


def test_every_block_has_an_experiment() -> None:
    listed = {each.name: each for each in read_experiments(SHIPPED).experiment}
    tables = set()
    for block in read_fedora_blocks().block:
        name = block.table.removeprefix("Figure ")
        tables.add(name)
        assert name in listed[block.experiment].tables
        assert set(block.variants) <= set(listed[block.experiment].variants)
        assert block.gpu == listed[block.experiment].gpu
    assert tables == {"III", "IV", "V", "VI", "VII", "VIII", "IX", "4", "5", "6", "7", "8"}


def test_scope_limits_tables_and_seeds(tmp_path: Path) -> None:
    listed = read_experiments(write_list(tmp_path))
    assert [run.title for run in plan_vertical_runs(listed, tmp_path, Scope())] == [
        "works: good, seed 0",
        "works: good, seed 1",
        "fails: bad, seed 0",
    ]
    assert len(plan_vertical_runs(listed, tmp_path, Scope(tables=["IV"]))) == 2
    assert len(plan_vertical_runs(listed, tmp_path, Scope(seeds=1))) == 2


@pytest.mark.parametrize(
    "change", ["seed=1", "training.epochs=2", "settings.left.data.sample.seed=5"]
)
def test_digest_depends_on_agreement_and_settings(tmp_path: Path, change: str) -> None:
    write_list(tmp_path)
    path = tmp_path / "tiny.toml"
    plain, other = read_config(path, SCHEMA), read_config(path, SCHEMA, [change])
    assert run_digest(plain, processes=False) == run_digest(
        read_config(path, SCHEMA), processes=False
    )
    assert run_digest(plain, processes=False) != run_digest(other, processes=False)
    assert run_digest(plain, processes=False) != run_digest(plain, processes=True)


def test_poisoned_runs_differ_only_in_the_backdoor() -> None:
    listed = read_experiments(SHIPPED)
    runs = plan_vertical_runs(listed, SHIPPED.parent, Scope(tables=["IX"], seeds=1))
    clean, poisoned = runs[0], runs[1]
    assert (clean.poisoned, poisoned.poisoned) == (False, True)
    unlearn = poisoned.agreement.unlearn[0]
    assert unlearn.model_copy(update={"backdoor": None}) == clean.agreement.unlearn[0]


def test_poisoned_runs_have_their_own_seeds() -> None:
    listed = read_experiments(SHIPPED)
    (chosen,) = (each for each in listed.experiment if each.name == "Digits, m=2, n=50 %")
    runs = plan_vertical_runs(listed, SHIPPED.parent, Scope(only=[chosen.name]))
    seeds = {each: [run.seed for run in runs if run.poisoned is each] for each in (False, True)}
    variants = len(chosen.variants)
    assert (len(seeds[False]), len(seeds[True])) == (5 * variants, 3 * variants)
