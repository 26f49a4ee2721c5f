"""Tests of ``vfl bench language``: experiments, the paper's numbers, and checks by hand."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.language import LanguageAgreement
from parties.cli.commands.bench import CONFIGS
from parties.experiments.bench.benches import language_bench
from parties.experiments.bench.cache import CachedRun, extract_records, read_cache, write_cache
from parties.experiments.bench.language.blocks import METHODS, read_language_blocks
from parties.experiments.bench.language.checks import TINY, language_checks
from parties.experiments.bench.language.extract import extract_language
from parties.experiments.bench.plan import (
    PlannedRun,
    Scope,
    read_federated_experiments,
)
from parties.experiments.bench.results import Results, collect_results
from parties.experiments.bench.tables import fill_blocks
from parties.language import memory_check
from parties.language.memory_check import estimate_party_memory
from parties.language.texts.partition import CorpusSizes, partition_rows
from tests.models.language.llama_configs import paper_configs

LIST = CONFIGS / "language.toml"
RULES = ("FedAvg", "FedAvgM", "FedProx", "FedAdagrad", "FedAdam", "FedYogi")


def runs(**scope: object) -> list[PlannedRun]:
    return language_bench(LIST).runs(Scope(**scope))  # type: ignore[arg-type]


def test_cpu_runs_the_tiny_model_and_gpu_runs_a_table_of_the_paper() -> None:
    assert {run.experiment for run in runs()} == {TINY}
    assert len(runs()) == 3 * len(RULES)
    second = runs(gpu=True, tables=("2",))
    assert {run.experiment for run in second} == {
        "Llama-3.2-1B, forget01",
        "Llama-3.2-3B, forget01",
    }
    assert [run.variant for run in second[: len(RULES)]] == list(RULES)


def test_server_rule_applies_to_training_and_unlearning() -> None:
    run = next(each for each in runs(seeds=1) if each.variant == "FedYogi")
    agreement = run.agreement
    assert isinstance(agreement, LanguageAgreement)
    assert agreement.training.rule.kind == "fedyogi"
    plan = agreement.unlearning
    for settings in (plan.grad_ascent, plan.grad_diff, plan.npo, plan.simnpo):
        assert settings.rule is not None
        assert settings.rule.kind == "fedyogi"


def test_every_paper_value_has_a_row() -> None:
    known = {run.experiment for run in runs(gpu=True)}
    for block in read_language_blocks().block:
        assert block.experiment in known
        assert set(block.paper) <= {row.label for row in block.rows}
    second = next(each for each in read_language_blocks().block if each.table == "2")
    assert second.paper["FedAdagrad, SimNPO"] == (0.42, 0.74)
    assert len(second.paper) == 6 * len(RULES)


def test_gpu_runs_fit_into_80_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server and one client together need less than 80 GB."""
    shapes = paper_configs()
    monkeypatch.setattr(memory_check, "read_base_config", lambda _, base: shapes[base.name])
    gpu_runs = [each for each in runs(gpu=True) if each.gpu and each.variant == "FedAvg"]
    assert len(gpu_runs) == 11
    for run in gpu_runs:
        agreement = run.agreement
        assert isinstance(agreement, LanguageAgreement)
        assert agreement.training.batch == 32
        base = Path(run.experiment.partition(",")[0].replace("7b", "7B"))
        both = [estimate_party_memory(agreement, base, role) for role in ("client", "server")]
        assert sum(each.total for each in both) < 80e9, run.experiment


def test_every_client_has_two_books() -> None:
    run = next(each for each in runs(gpu=True) if each.experiment == "Llama-2-7b, Books")
    agreement = run.agreement
    assert isinstance(agreement, LanguageAgreement)
    parts = partition_rows("shards", CorpusSizes(12, 4), len(agreement.spokes), agreement.seed)
    assert {len(each.rows) for each in parts} == {2}
    assert agreement.training.share * len(parts) == 3


def test_undefined_variant_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        '[[experiment]]\nname = "x"\nconfig = "a.toml"\ntables = ["1"]\nvariants = ["odd"]\n'
    )
    with pytest.raises(ConfigError, match="undefined variants: odd"):
        read_federated_experiments(path)


def metrics(values: dict[str, dict[str, float]]) -> dict[str, object]:
    methods = [
        {
            "name": name,
            "cost": None if name == "original" else {"seconds": 3.0},
            "figures": [{"name": figure, "value": value} for figure, value in figures.items()],
        }
        for name, figures in values.items()
    ]
    return {"requests": [{"methods": methods}]}


def test_diverged_model_has_utility_zero() -> None:
    record = metrics({"original": {"model_utility": 0.5}, "retrain": {}, "npo": {}})
    record["requests"][0]["methods"][2]["diverged"] = "in round 2"  # type: ignore[index]
    figures = extract_language(runs()[0], record)
    assert (figures["original"]["mu"], figures["npo"]["mu"]) == (0.5, 0.0)


def test_extracted_figures_average_the_retrains() -> None:
    record = metrics(
        {
            "original": {"model_utility": 0.5},
            "npo": {"model_utility": 0.4, "forget_truth_ratio": 0.6},
            "retrain": {"model_utility": 0.5},
            "retrain-2": {"model_utility": 0.6},
        }
    )
    figures = extract_language(runs(seeds=1)[0], record)
    assert figures["original"] == {"mu": 0.5}
    assert figures["npo"] == {"mu": 0.4, "ftr": 0.6, "seconds": 3.0}
    assert figures["retrain"]["mu"] == pytest.approx(0.55)
    assert "retrain-2" not in figures


def cached(run: PlannedRun, base: str = "") -> CachedRun:
    return CachedRun(run.title, "0123abc", "2 cores", "d1", 1.0, {}, base)


def test_base_model_of_a_run_is_stored_with_its_values(tmp_path: Path) -> None:
    (run, other) = runs(seeds=1)[:2]
    origin = {"commit": "0123abc", "machine": "2 cores", "code": "d1"}
    record = metrics({"original": {}}) | {
        "run": {"base": "aa" * 32},
        "bench": {"provenance": origin, "seconds": 1.0},
    }
    stored = extract_records([run], {run.digest: record}, extract_language)
    assert stored[run.digest].base == "aa" * 32
    write_cache(tmp_path, stored | {other.digest: cached(other)})
    assert (tmp_path / "runs.json").read_text().count("base") == 1
    assert read_cache(tmp_path) == stored | {other.digest: cached(other)}


def test_runs_of_one_table_have_one_base_model() -> None:
    one, two, three = runs(seeds=1)[:3]
    same = {run.digest: cached(run, "aa" * 32) for run in (one, two)}
    assert collect_results(runs(), same).unknown_bases == 0
    mixed = same | {three.digest: cached(three, "bb" * 32)}
    with pytest.raises(ConfigError, match=f"the runs of '{TINY}' have different base") as error:
        collect_results(runs(), mixed)
    assert f"bbbbbbbbbbbb… in '{three.title}' ({three.digest})" in str(error.value)
    assert error.value.hint is not None
    assert "runs.json" in error.value.hint


def test_runs_without_a_recorded_base_model_are_counted() -> None:
    one, two, three = runs(seeds=1)[:3]
    earlier = {run.digest: cached(run) for run in (one, two)}
    assert collect_results(runs(), earlier).unknown_bases == 0
    some = earlier | {three.digest: cached(three, "aa" * 32)}
    assert collect_results(runs(), some).unknown_bases == 2


def results_of(ratio: float, utility: float, seeds: int = 3) -> Results:
    results = {
        (TINY, rule, name): {
            seed: {"mu": utility, "ftr": 0.4 if name == "original" else ratio}
            for seed in range(seeds)
        }
        for rule in ("FedAvg", "FedAvgM")
        for name in METHODS
    }
    return Results(results)


def test_checks_need_three_seeds() -> None:
    assert all(each.ok for each in language_checks(results_of(0.6, 0.01)))
    reproduced = [each for each in language_checks(results_of(0.3, 0.4)) if each.ok]
    assert reproduced == []
    assert {each.ok for each in language_checks(results_of(0.6, 0.01, seeds=2))} == {None}


def test_row_is_compared_with_the_retrain_of_its_rule() -> None:
    blocks = [each for each in read_language_blocks().block if each.experiment == TINY]
    block = next(each for each in blocks if each.measures == ("mu", "ftr"))
    results = Results(
        {
            (TINY, "FedAvg", "retrain"): {0: {"mu": 0.5}},
            (TINY, "FedAvgM", "retrain"): {0: {"mu": 0.3}},
            (TINY, "FedAvgM", "npo"): {0: {"mu": 0.1}},
        }
    )
    (shown,) = fill_blocks([block], results)
    cell = next(line.cells[0] for line in shown.lines if line.row.label == "FedAvgM, NPO")
    assert cell.gap == pytest.approx(-0.2)
    assert cell.paper_gap == pytest.approx(0.003 - 0.47)
