"""Figures of language models: a tiny Llama fine-tuned on TOFU by three clients, and unlearning.

The run includes the training of the base model and needs neither weights nor a GPU.
``VFL_LLM_METRICS`` may name an existing metrics file of the same config. ``vfl bench language``
creates the tables.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from bench.ledger import Row, at_most, shown

from models.language.adapters import AdapterSettings
from models.language.memory import TrainingLoad, estimate_training
from parties.cli.modes import SCHEMAS
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask, TextTask
from parties.horizontal.simulation.simulate import simulate_federated
from parties.language.engine.tiny_base import TinyBasePlan, build_tiny_base
from parties.session.simulation import SimulationPlan
from tests.models.language.llama_configs import paper_configs
from tests.parties.language.ferries import connected_cohort, prepare_federation

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "llm" / "tofu.toml"
CLIENTS, EPOCHS = 1200, 4  # rows of TOFU at the clients; epochs of the base model on public texts
COUNTS = {
    "Llama-3.2-1B": 22_544_384,
    "Llama-3.2-3B": 48_627_712,
    "Llama-3.1-8B": 83_886_080,
    "Llama-2-7B": 79_953_920,
}
ATTACKS = ("evaluation.relearn=20", "evaluation.quantise=true")
COLLAPSED = {"npo-fedavgm": "NPO", "grad-diff-fedavgm": "GradDiff"}
NEARER = ("npo", "simnpo", "primal-dual")
Models = Mapping[str, Mapping[str, float]]


def language_models(data: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """Measure parameter counts, bytes of a round and the run."""
    for name, expected in COUNTS.items():
        load = TrainingLoad(batch=1, length=1, lora=AdapterSettings(rank=32))
        count = estimate_training(paper_configs()[name], load).gradients // 4  # float32
        title = f"llm: adapters of rank 32 on the seven projections of {name}"
        yield Row(title, count, "numbers", f"exactly {expected}", count == expected)
    yield _round_bytes()
    metrics, base = _run(data, report)
    yield from _rows(figures(metrics))
    minutes, prefix = metrics["run"]["seconds"] / 60, "" if base is None else "base model, "
    yield at_most(f"llm: {prefix}fine-tuning, every way and all figures, on two cores",
                  minutes + (base or 0.0), 30.0, "minutes")  # fmt: skip


def _round_bytes() -> Row:
    """Compare the bytes of a round of three clients with the formula."""
    task = LocalTask(aim="text", stream="bytes", batch=8, learning_rate=0.01, text=TextTask())
    with (
        TemporaryDirectory() as folder,
        connected_cohort(*prepare_federation(Path(folder)), task) as (cohort, server),
    ):
        model, names = server.base_model.initial, cohort.clients
        before = server.traffic.total().payload
        cohort.mean_update([Member(name) for name in names], task, {"model": model})
        payload = server.traffic.total().payload - before
    expected = 2 * 4 * len(model) * len(names)
    title = "llm: bytes of a round of three clients with adapters, payload"
    return Row(
        title, payload, "bytes", f"exactly 2 · 4 · d · |S| = {expected}", payload == expected
    )


def _rows(models: Models) -> Iterator[Row]:
    original, retrain = models["original"], models["retrain"]
    times = original["text_probability"] / retrain["text_probability"]
    yield Row("llm: tiny Llama, TOFU forget10, 3 clients: probability of forgotten answers, "
              "fine-tuned over never seen", times, "x", "at least 20", times >= 20)  # fmt: skip
    for name in NEARER:
        distance, trained = models[name]["forget_distance"], original["forget_distance"]
        yield Row(f"llm: KS of truth ratios to Retrain's, {name}", distance, "",
                  f"below fine-tuning's {trained:.4g}", distance < trained)  # fmt: skip
        utility = models[name]["model_utility"] / retrain["model_utility"]
        yield Row(f"llm: model utility over Retrain's, {name}", utility, "",
                  "within 0.1 of 1", abs(utility - 1) <= 0.1)  # fmt: skip
    for name in ("original", *NEARER, "retrain"):
        yield from _attack_rows(name, models[name])
    for name, method in COLLAPSED.items():
        ratio = models[name]["model_utility"] / retrain["model_utility"]
        yield Row(f"llm: model utility over Retrain's, {method} through FedAvgM without a rate",
                  ratio, "", "it collapses: at most 0.1", ratio <= 0.1)  # fmt: skip
    yield shown("llm: model utility of Retrain, of fine-tuning",
                f"{retrain['model_utility']:.3f}, {original['model_utility']:.3f}", "")  # fmt: skip


def _attack_rows(name: str, figures: Mapping[str, float]) -> Iterator[Row]:
    """Return the probability of forgotten answers after rounding and after relearning."""
    if "relearned" not in figures:  # a metrics file of a run without attacks
        return
    rounded = [figures[f"rounded_{bits}_probability"] for bits in (8, 4)]
    each = (figures["forget_probability"], *rounded)
    yield shown(f"llm: probability of forgotten answers as it is, in 8 bits, in 4 bits, {name}",
                ", ".join(f"{p:.4f}" for p in each), "")  # fmt: skip
    yield shown(f"llm: the same of 380 answers before and after relearning 20 others, {name}",
                f"{figures['relearned_before']:.4f}, {figures['relearned']:.4f}", "")  # fmt: skip


def figures(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the figures that have a value, by model."""
    return {
        each["name"]: {f["name"]: f["value"] for f in each["figures"] if f["value"] is not None}
        for each in metrics["requests"][0]["methods"]
    }


def _run(data: Path, report: Callable[[str], None]) -> tuple[dict[str, Any], float | None]:
    """Return the metrics, and the minutes of the base model if it was trained here."""
    if path := os.environ.get("VFL_LLM_METRICS"):
        recorded: dict[str, Any] = json.loads(Path(path).read_text())
        return recorded, None
    started = monotonic()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        copytree(data / "tofu", root / "tofu")
        report("llm: pre-training the tiny base")
        plan = TinyBasePlan(root / "tofu", CLIENTS, (), EPOCHS, 0, 1)
        build_tiny_base(root / "tiny", plan, lambda _: None)
        minutes = (monotonic() - started) / 60

        def listen(event: dict[str, Any]) -> None:
            if event["event"] == "progress":
                report(f"llm: {event['phase']}, {event['done']} of {event['total'] or '?'}")

        metrics = simulate_federated(
            SimulationPlan(CONFIG, ATTACKS, root / "runs", root, schemas=SCHEMAS), listen
        )
    return metrics, minutes
