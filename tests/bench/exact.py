"""Figures: the certificate on Adult, the digests of shards, and what shards cost on digits."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from ledger import Row, at_least, at_most, shown
from never_saw import digests, saw_and_never
from one_head import bounds

from parties.session.simulation import SimulationPlan, simulate_processes
from parties.vertical.in_process import run_in_process

CONFIGS = Path(__file__).parents[2] / "configs" / "vertical"
PROBLEMS = 50
SHARDS, SEEDS = (1, 4, 8, 16), range(5)
ONE_MODEL = ("unlearning.method='fedora'", "unlearning.compare=['fine-tune','relabel']")
Tell = Callable[[str], None]


def certified(data: Path, tell: Tell) -> Iterator[Row]:
    """Newton-CG: bounds and true distances, on random problems and on Adult between processes."""
    held = sum(all(b >= d for b, d in bounds(seed)) for seed in range(PROBLEMS))
    name = f"random problems of {PROBLEMS} whose bound is at least the true distance, always"
    yield at_least(name, held, PROBLEMS, "problems")
    methods = _methods(_run("income-certified", data, tell))
    facts, optimum = methods["newton-cg"]["facts"]["certificate"], methods["retrain-paired"]
    reached = [step["bound"] for step in facts["steps"]]
    apart = [each["distance"] for each in optimum["facts"]["distances"]]
    nearest = optimum["facts"]["bound"]
    for number, (bound, distance) in enumerate(zip(reached, apart, strict=True)):
        yield shown(f"Adult, Newton step {number}: certified distance", bound, "")
        yield shown(f"Adult, Newton step {number}: true distance", distance, "")
    kept = fmean(bound + nearest >= one for bound, one in zip(reached, apart, strict=True))
    yield at_least("Adult: steps whose bound is at least the true distance", kept, 1.0, "of all")
    near = next(number for number, bound in enumerate(reached) if bound <= 1e-5)
    yield at_most("Adult: Newton steps to a certified distance of 1e-5", near, 4, "steps")
    yield shown("Adult: products with the Hessian", sum(s["products"] for s in facts["steps"]), "")
    yield shown("Adult: bytes of a product and passive party", facts["product_bytes"], "bytes")
    yield shown("Adult: bytes in all", methods["newton-cg"]["cost"]["bytes"], "bytes")
    test = methods["newton-cg"]["accuracy"]["test"]
    yield shown("Adult: test accuracy of the certified model", test, "")


def shards(data: Path, tell: Tell) -> Iterator[Row]:
    """A shard that forgot against one that never saw; digits in shards, and what they cost."""
    with TemporaryDirectory() as folder:
        saw, never = saw_and_never(Path(folder))
    after, clean = digests(saw, "after"), digests(never, "before")
    same = fmean(after[shard] == clean[shard] for shard in clean)
    yield at_least(
        "shards bit-equal to those of a run that never saw the rows", same, 1.0, "of all"
    )
    sharding = _methods(_run("digits-shards", data, tell))["sharded"]["facts"]["sharding"]
    touched = set(sharding["touched"])
    kept = [(each["after"] == each["before"]) for each in sharding["digests"]]
    right = fmean(k is (n not in touched) for n, k in enumerate(kept))
    yield at_least("digits: shards that changed if and only if touched", right, 1.0, "of all")
    for count in SHARDS:
        method = () if count > 1 else ONE_MODEL
        reached = [
            _run("digits-shards", data, tell, f"sharding.shards={count}", f"seed={seed}",
                 "unlearn=[]", *method)["run"]["test_accuracy"]
            for seed in SEEDS
        ]  # fmt: skip
        yield shown(f"digits: test accuracy with {count} shards", fmean(reached), "")
        yield shown(
            f"digits: its spread over {len(reached)} seeds with {count} shards", stdev(reached), ""
        )


def _methods(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {method["name"]: method for method in run["requests"][0]["methods"]}


def _run(name: str, data: Path, tell: Tell, *changes: str) -> dict[str, Any]:
    tell(f"{name} {' '.join(changes)}")
    with TemporaryDirectory() as out:
        plan = SimulationPlan(CONFIGS / f"{name}.toml", changes, Path(out), data)
        together = (
            run_in_process if changes else simulate_processes
        )  # the same numbers, with less to start
        return together(plan, lambda event: None)
