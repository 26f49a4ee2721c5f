"""Tests of the checks R7 to R10 and R13 on given figures: all hold, and each fails alone."""

from pathlib import Path
from typing import Any

import pytest
from bench_runs import write_list

from configs.experiments import read_experiments
from parties.experiments.bench.benches import plan_vertical_runs
from parties.experiments.bench.horizontal.checks import IID, PAT_20, PAT_50, horizontal_checks
from parties.experiments.bench.horizontal.extract import extract_horizontal
from parties.experiments.bench.plan import Scope
from parties.experiments.bench.results import Results

ASCENT = {"right1": 0.3, "asr1": 0.01, "asr2": 0.5, "conflicts": 8.0}
EXPECTED: dict[str, dict[str, dict[str, float]]] = {
    setting: {
        "original": {"right1": 0.85, "right2": 0.85},
        "fedosd": {"right1": 0.80, "asr2": 0.02, "right2": 0.86, "conflicts": 0.0},
        "ewc-sga": ASCENT,
        "fu-pga": ASCENT,
    }
    for setting in (PAT_20, PAT_50, IID, "MNIST, Pat-20")
}
EXPECTED[PAT_50] |= {
    "m1": {"right1": 0.0},
    "m2": {"right1": 0.3},
    "m3": {"asr1": 0.8, "right1": 0.84},
    "m5": {"asr2": 0.1},
}
EXPECTED["MNIST, IBM"] = {
    "original": {"test": 0.983},
    "retrain": {"test": 0.985, "stamped": 0.10},
    "fu-pga": {"stamped": 0.11},
}
EXPECTED["MNIST, FedForget"] = {
    "original": {"test": 0.95},
    "fine-tune": {"forgotten": 0.88},
    "repel": {"test": 0.90},
    "retrain": {"seconds": 300.0},
    "fedforget": {"forgotten": 0.96, "seconds": 100.0},
}


def checks_hold(
    changed: tuple[str, str, str, float] | None = None, seeds: int = 3
) -> dict[str, bool]:
    """Return whether each check on R7 to R10 and R13 holds, by title."""
    figures_by_run: dict[tuple[str, str, str], dict[int, dict[str, float]]] = {}
    for setting, methods in EXPECTED.items():
        for name, values in methods.items():
            figures = dict(values)
            if changed is not None and changed[:2] == (setting, name):
                figures[changed[2]] = changed[3]
            figures_by_run[setting, "", name] = dict.fromkeys(range(seeds), figures)
    judged_checks = [each for each in horizontal_checks(Results(figures_by_run)) if each.wanted]
    return {each.name: bool(each.ok) for each in judged_checks if each.value is not None}


def test_checks_on_expected_figures_hold() -> None:
    holds = checks_hold()
    assert all(holds.values())
    assert {name.split(":")[0] for name in holds} == {"R7", "R8", "R9", "R10", "R13"}


def test_two_seeds_give_no_check() -> None:
    assert not checks_hold(seeds=2)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ((PAT_20, "fedosd", "asr2", 0.06), {"R7: ASR² of FedOSD, Fashion-MNIST, Pat-20"}),
        ((IID, "fedosd", "right2", 0.81),
         {"R7: R-Acc² of FedOSD minus the original's, Fashion-MNIST, IID"}),
        ((PAT_20, "ewc-sga", "asr1", 0.5), {"R7: ASR¹ of ewc-sga, Fashion-MNIST, Pat-20"}),
        ((PAT_20, "fu-pga", "asr2", 0.2), {"R7: ASR² of fu-pga, Fashion-MNIST, Pat-20"}),
        ((IID, "fu-pga", "right1", 0.7),
         {"R7: R-Acc¹ of FedOSD minus that of fu-pga, Fashion-MNIST, IID"}),
        (("MNIST, Pat-20", "fedosd", "conflicts", 0.1), {"R8: NC of FedOSD, MNIST, Pat-20"}),
        (("MNIST, Pat-20", "ewc-sga", "conflicts", 4.0), {"R8: NC of ewc-sga, MNIST, Pat-20"}),
        ((PAT_50, "m1", "right1", 0.6), {"R9: R-Acc¹ of FedOSD minus that of M1"}),
        ((PAT_50, "m3", "asr1", 0.4), {"R9: ASR¹ of M3"}),
        ((PAT_50, "m5", "asr2", 0.02), {"R9: ASR² of M5 minus FedOSD's"}),
        (("MNIST, IBM", "original", "test", 0.96), {"R10: test accuracy of original"}),
        (("MNIST, IBM", "fu-pga", "stamped", 0.13), {"R10: trigger on test rows, fu-pga"}),
        (("MNIST, FedForget", "fedforget", "forgotten", 0.8),
         {"R13: accuracy on D_u, FedForget minus fine-tune"}),
        (("MNIST, FedForget", "repel", "test", 0.94), {"R13: test accuracy, original minus repel"}),
    ],
)  # fmt: skip
def test_figure_outside_its_range_fails_one_check(
    changed: tuple[str, str, str, float], wrong: set[str]
) -> None:
    assert {name for name, ok in checks_hold(changed).items() if not ok} == wrong


def test_diverged_model_has_accuracy_zero(tmp_path: Path) -> None:
    run = plan_vertical_runs(read_experiments(write_list(tmp_path)), tmp_path, Scope())[0]

    def method(name: str, diverged: str | None, **figures: float) -> dict[str, Any]:
        entries = [{"name": figure, "value": value} for figure, value in figures.items()]
        return {"name": name, "cost": {"seconds": 1.0}, "diverged": diverged, "figures": entries}

    methods = [
        method("m1", "diverged in round 3"),
        method("m2", None, client_accuracy=0.6, unlearned_client_accuracy=0.5),
        method("retrain", None, client_accuracy=0.8),
    ]
    results = extract_horizontal(run, {"requests": [{"methods": methods}]})
    assert (results["m1"]["right1"], results["m1"]["right2"]) == (0.0, 0.0)
    assert (results["m2"]["right1"], results["m2"]["right2"]) == (0.5, 0.6)
    assert (results["retrain"]["right1"], results["retrain"]["right2"]) == (0.8, 0.8)
