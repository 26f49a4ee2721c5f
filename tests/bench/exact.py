"""Figures: the certificate on Adult, the digests of shards, and accuracy of shards."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from bench.ledger import Row, at_least, at_most, shown
from one_head import bounds
from sharded_runs import digests, run_with_and_without_rows

from parties.cli.modes import SCHEMAS
from parties.session.simulation import SimulationPlan, simulate_processes
from parties.vertical.in_process import run_in_process

CONFIGS = Path(__file__).parents[2] / "configs" / "vertical"
PROBLEMS = 50
SHARDS, SEEDS = (1, 4, 8, 16), range(5)
ONE_MODEL = ("unlearning.method='fedora'", "unlearning.compare=['fine-tune','relabel']")
Report = Callable[[str], None]


def certified(data: Path, report: Report) -> Iterator[Row]:
    """Compare bounds and true distances of Newton-CG on random problems and on Adult."""
    bounded = sum(all(b >= d for b, d in bounds(seed)) for seed in range(PROBLEMS))
    name = f"random problems of {PROBLEMS} whose bound is at least the true distance, always"
    yield at_least(name, bounded, PROBLEMS, "problems")
    methods = _methods(_run("income-certified", data, report))
    facts, optimum = methods["newton-cg"]["details"]["certificate"], methods["retrain-paired"]
    bounds_reached = [step["bound"] for step in facts["steps"]]
    distances = [each["distance"] for each in optimum["details"]["distances"]]
    nearest = optimum["details"]["bound"]
    for number, (bound, distance) in enumerate(zip(bounds_reached, distances, strict=True)):
        yield shown(f"Adult, Newton step {number}: certified distance", bound, "")
        yield shown(f"Adult, Newton step {number}: true distance", distance, "")
    bounded_steps = fmean(
        bound + nearest >= one for bound, one in zip(bounds_reached, distances, strict=True)
    )
    yield at_least(
        "Adult: steps whose bound is at least the true distance", bounded_steps, 1.0, "of all"
    )
    steps = next(number for number, bound in enumerate(bounds_reached) if bound <= 1e-5)
    yield at_most("Adult: Newton steps to a certified distance of 1e-5", steps, 4, "steps")
    yield shown("Adult: products with the Hessian", sum(s["products"] for s in facts["steps"]), "")
    yield shown("Adult: bytes of a product and passive party", facts["product_bytes"], "bytes")
    yield shown("Adult: bytes in all", methods["newton-cg"]["cost"]["size"], "bytes")
    test = methods["newton-cg"]["accuracy"]["test"]
    yield shown("Adult: test accuracy of the certified model", test, "")


def shards(data: Path, report: Report) -> Iterator[Row]:
    """Compare unlearned shards with a run without the rows; measure the accuracy of shards."""
    with TemporaryDirectory() as folder:
        with_rows, without_rows = run_with_and_without_rows(Path(folder))
    after, clean = digests(with_rows, "after"), digests(without_rows, "before")
    same = fmean(after[shard] == clean[shard] for shard in clean)
    yield at_least(
        "shards bit-equal to those of a run that never saw the rows", same, 1.0, "of all"
    )
    sharding = _methods(_run("digits-shards", data, report))["sharded"]["details"]["sharding"]
    affected = set(sharding["touched"])
    unchanged = [(each["after"] == each["before"]) for each in sharding["digests"]]
    right = fmean(k is (n not in affected) for n, k in enumerate(unchanged))
    yield at_least("digits: shards that changed if and only if touched", right, 1.0, "of all")
    for count in SHARDS:
        method = () if count > 1 else ONE_MODEL
        accuracies = [
            _run("digits-shards", data, report, f"sharding.shards={count}", f"seed={seed}",
                 "unlearn=[]", *method)["run"]["test_accuracy"]
            for seed in SEEDS
        ]  # fmt: skip
        yield shown(f"digits: test accuracy with {count} shards", fmean(accuracies), "")
        yield shown(
            f"digits: its spread over {len(accuracies)} seeds with {count} shards",
            stdev(accuracies),
            "",
        )


def _methods(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {method["name"]: method for method in run["requests"][0]["methods"]}


def _run(name: str, data: Path, report: Report, *changes: str) -> dict[str, Any]:
    report(f"{name} {' '.join(changes)}")
    with TemporaryDirectory() as out:
        plan = SimulationPlan(CONFIGS / f"{name}.toml", changes, Path(out), data, schemas=SCHEMAS)
        simulate = (
            run_in_process if changes else simulate_processes
        )  # the same results without processes
        return simulate(plan, lambda event: None)
