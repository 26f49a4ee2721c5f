"""The bytes of tensors equal the formula, for each method and passive party."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from fixed_threshold import run_fedora
from three_parties import agreement, forget_some, open_split_model, start_training

from parties.requests.driver import carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.rows import Sample
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.counterfactual import LEARNED, SAMPLED
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.relabel import RelabelMethod
from parties.vertical.methods.retrain import RetrainMethod
from parties.vertical.methods.retrain_local import RetrainLocalMethod
from parties.vertical.methods.shrink_perturb import ShrinkPerturbMethod
from parties.vertical.methods.top_only import TopOnlyMethod
from protocol import vfl_pb2

WIDTHS = {"left": 4, "right": 2}
ITEM, BATCH, EPOCHS, STEPS = 4, 16, 3, 2  # float32
UNLEARNING = {
    "fedora": {
        "start": "original",
        "batch": BATCH,
        "iterations": 3,
        "retain_share": 0.6,
        "check_every": 99,
        "utility_loss": 1.0,
    },
    "fine_tune": {"epochs": EPOCHS},
    "gradient_ascent": {"steps": STEPS, "learning_rate": 1e-6},
    "top_only": {"epochs": 2},
    "relabel": {"epochs": 2},
    "shrink_perturb": {"epochs": 2},
    "ico_like": {"steps": 7, "share": 0.3},
    "retrain_local": {"fit_epochs": 2},
}


def payload(split_model: SplitModel) -> dict[str, int]:
    """Bytes of tensors until now, to and from each passive party."""
    totals = dict.fromkeys(WIDTHS, 0)
    for (peer, *_), total in split_model.party.traffic._totals.items():
        totals[peer] += total.payload
    return totals


def payload_of(split_model: SplitModel, run_method: Callable[[], Any]) -> dict[str, int]:
    before = payload(split_model)
    run_method()
    return {name: after - before[name] for name, after in payload(split_model).items()}


def formula(rows_both_ways: int, rows_shown: int = 0) -> dict[str, int]:
    """2 · 4 · d_h for a row with embedding and gradient; half of that without a gradient."""
    return {name: ITEM * w * (2 * rows_both_ways + rows_shown) for name, w in WIDTHS.items()}


@pytest.fixture
def split_model(tmp_path: Path) -> Any:
    training = {"batch": BATCH, "epochs": EPOCHS, "learning_rate": 0.02}
    with open_split_model(
        tmp_path, dtype="float32", unlearning=UNLEARNING, training=training
    ) as opened:
        split_model, _ = opened
        forget_some(split_model)
        start_training(split_model, ORIGINAL)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH))
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        yield split_model


def test_fedora(split_model: SplitModel) -> None:
    """n_u + R B rows an iteration (Table II); the last batch of an epoch may be shorter."""
    rows, plan = split_model.rows, split_model.agreement.unlearning.fedora
    sub_steps = max(1, ceil(plan.retain_share * len(rows.retain) / BATCH))
    per_epoch = ceil(len(rows.retain) / BATCH)
    short = len(rows.retain) - (per_epoch - 1) * BATCH
    sizes = [*[BATCH] * (per_epoch - 1), short]
    batches = [sizes[step % per_epoch] for step in range(plan.iterations * sub_steps)]
    assert short < BATCH
    assert short in batches  # the short batch is included
    payload_sent = payload_of(split_model, lambda: run_fedora(split_model, 1.0, 0.0))
    both_ways = plan.iterations * len(rows.forgotten) + sum(batches)
    # Two evaluations: of the original model, and of the last one. The counterfactual targets need
    # the outputs on D_u and on a sample of D_r, and the codes of a part of D_r, of D_u and of
    # the validation rows once.
    sample = min(SAMPLED[-1], len(rows.retain))  # few validation rows: the smallest sample
    assert len(rows.validation) < 2 * SAMPLED[-1]
    learned = max(ceil(LEARNED * len(rows.retain)), sample)
    targets = len(rows.forgotten) + sample + learned + len(rows.forgotten) + len(rows.validation)
    assert payload_sent == formula(both_ways, rows_shown=2 * len(rows.validation) + targets)


def test_retrain(split_model: SplitModel) -> None:
    """Every epoch passes over D_r, and evaluates the validation rows."""
    rows = split_model.rows
    payload_sent = payload_of(
        split_model, lambda: carry_out(RetrainMethod("retrain", "retrain"), NetworkRun(split_model))
    )
    assert payload_sent == formula(EPOCHS * len(rows.retain), EPOCHS * len(rows.validation))


def test_gradient_ascent(split_model: SplitModel) -> None:
    """D_u once for the first gradient, and once after each step, for the next gradient."""
    rows = split_model.rows
    payload_sent = payload_of(
        split_model, lambda: carry_out(GradientAscentMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula((STEPS + 1) * len(rows.forgotten))


def test_fine_tune_equals_one_process(split_model: SplitModel) -> None:
    payload_sent = payload_of(
        split_model, lambda: carry_out(FineTuneMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula(EPOCHS * len(split_model.rows.retain))


def test_top_only(split_model: SplitModel) -> None:
    """Embeddings of D_r are sent once, and no gradient is sent back."""
    payload_sent = payload_of(
        split_model, lambda: carry_out(TopOnlyMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula(0, rows_shown=len(split_model.rows.retain))


def test_retrain_local(split_model: SplitModel) -> None:
    """D_r once forward, then one and a half epochs both ways with a quarter of the batch."""
    count, size = len(split_model.rows.retain), BATCH // 4
    payload_sent = payload_of(
        split_model, lambda: carry_out(RetrainLocalMethod(), NetworkRun(split_model))
    )
    half = (ceil(1.5 * count / size) - ceil(count / size)) * size
    assert payload_sent == formula(count + half, rows_shown=count)


def test_relabel(split_model: SplitModel) -> None:
    payload_sent = payload_of(
        split_model, lambda: carry_out(RelabelMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula(2 * len(split_model.rows.train))


def test_shrink_perturb(split_model: SplitModel) -> None:
    """Shrinking sends no rows."""
    payload_sent = payload_of(
        split_model, lambda: carry_out(ShrinkPerturbMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula(2 * len(split_model.rows.retain))


def test_ico_like(split_model: SplitModel) -> None:
    """D_u once, then K batches; the last of an epoch over the fixed part is short."""
    rows = split_model.rows
    sample = replace(rows, sample=Sample("correction", 0.3))
    portion = len(sample.select(vfl_pb2.SAMPLE))
    sizes = [min(BATCH, portion - start) for start in range(0, portion, BATCH)]
    batches = [sizes[step % len(sizes)] for step in range(7)]
    assert min(batches) < BATCH
    payload_sent = payload_of(
        split_model, lambda: carry_out(IcoLikeMethod(), NetworkRun(split_model))
    )
    assert payload_sent == formula(len(rows.forgotten) + sum(batches), len(rows.validation))


def test_cvfu(tmp_path: Path) -> None:
    """One forward pass over D; per epoch D_r with gradients and once more forward; D_u once."""
    parties = {name: each | {"width": 3} for name, each in agreement()["parties"].items()}
    plan = {"cvfu": {"epochs": 2, "batch": BATCH, "learning_rate": 0.01}}
    changes = {"dtype": "float32", "parties": parties, "top": {"kind": "sum"}, "unlearning": plan}
    with open_split_model(tmp_path, **changes) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, ORIGINAL)
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        rows, stay = split_model.rows, len(split_model.rows.retain)
        payload_sent = payload_of(
            split_model, lambda: carry_out(CvfuMethod(), NetworkRun(split_model))
        )
        both_ways, shown = len(rows.forgotten) + 2 * stay, len(rows.train) + 2 * stay
        assert payload_sent == dict.fromkeys(WIDTHS, ITEM * 3 * (2 * both_ways + shown))
