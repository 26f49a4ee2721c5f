"""Tests of the population audits: the null is calibrated, and known failures are detected."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from configs.agreement import RowRequest
from models.ensemble import Ensemble
from parties.common.errors import PolicyError
from parties.experiments.population.audit import U_LIRA, VS_RETRAIN, PopulationAudit, leak
from parties.experiments.population.forget_sets import ForgetSet, draw_forget_sets
from parties.experiments.population.measured import Measured
from parties.experiments.population.part import accuracies
from parties.experiments.population.pooled_data import PooledData
from parties.experiments.population.run import (
    run_population_method,
    run_requests,
    train_originals,
)
from parties.experiments.population.trained import TrainedPopulation
from parties.vertical.engine.rows import RowSets
from parties.vertical.methods.registry import AGREEMENT
from protocol import vfl_pb2
from unlearning.audit.epsilon import epsilon_bound
from unlearning.audit.forgetting import label_log_odds
from unlearning.audit.lira import AuditLayout, attack_aucs, stronger_auc

RUNS, ROWS = 64, 200
REQUEST = RowRequest(name="half", classes=("dark", "bright"), fraction=0.5)


@cache
def pooled() -> PooledData:
    """Return noisy rows of two classes at two parties, which a small network memorises."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(ROWS * 3) % 2
    signal = (2.0 * labels - 1.0).unsqueeze(1) * 0.5
    values = torch.randn(len(labels), 12, generator=generator) + signal
    agreement = AGREEMENT.model_validate(
        {
            "federation": "small",
            "labels": {"classes": ["dark", "bright"]},
            "parties": {
                "hub": {"role": "active"},
                "left": {"role": "passive", "width": 6, "bottom": {"kind": "mlp", "hidden": [24]}},
                "right": {"role": "passive", "width": 6, "bottom": {"kind": "mlp", "hidden": [24]}},
            },
            "training": {"batch": 25, "epochs": 25, "learning_rate": 0.01},
            "unlearning": {
                "fedora": {
                    "policy": "present",
                    "iterations": 10,
                    "retain_share": 1.0,
                    "batch": 25,
                    "primal_step": 0.01,
                }
            },
        },
        strict=False,
    )
    parts = [np.arange(ROWS), np.arange(ROWS, ROWS + 80), np.arange(ROWS + 80, 3 * ROWS)]
    rows = RowSets(
        seed=0,
        initial_train=parts[0],
        train=parts[0],
        validation=parts[1],
        test=parts[2],
        forgotten=np.empty(0, np.int64),
    )
    return PooledData(agreement, rows, {"left": values[:, :6], "right": values[:, 6:]}, labels)


@cache
def populations() -> tuple[ForgetSet, TrainedPopulation, TrainedPopulation]:
    drawn = draw_forget_sets(pooled(), REQUEST, RUNS)
    return (
        drawn,
        train_originals(drawn, "original", vfl_pb2.TRAIN_ROWS, (0.2,)),
        train_originals(drawn, "retrain", vfl_pb2.RETAIN),
    )


def measured(models: Ensemble) -> Measured:
    """Return the confidences of models on the pool; no calibration, so both kinds are equal."""
    drawn, empty = populations()[0], np.empty(0)
    logits = drawn.pooled.logits(models, drawn.pool)
    values = label_log_odds(logits, drawn.pooled.labels[drawn.pool]).numpy()
    return Measured(values, values, empty, empty, empty, empty, empty, {})


@cache
def population_audit() -> PopulationAudit:
    drawn, _, retrained = populations()
    return PopulationAudit(drawn.learned, measured(retrained.original))


def test_each_run_trains_on_half_of_the_pool_and_pairs_are_complements() -> None:
    drawn = populations()[0]
    assert (drawn.learned.sum(axis=1) == len(drawn.pool) // 2).all()
    assert (drawn.learned[0::2] ^ drawn.learned[1::2]).all()
    rows = drawn.rows(3)
    assert set(rows.forgotten) == set(drawn.pool[drawn.learned[3]])
    assert not np.intersect1d(rows.retain, drawn.pool).size


def test_retrains_are_indistinguishable_from_retrains() -> None:
    drawn, _, retrained = populations()
    values, generator = measured(retrained.original).confidences, np.random.default_rng(0)
    half, rows = RUNS // 2, len(drawn.pool)
    layout = AuditLayout(*[np.ones((half, rows), np.bool_)] * 2, pairs=False)
    aucs = []
    for _ in range(40):
        first, second = np.split(values[generator.permutation(RUNS)], 2)
        aucs.append(float(stronger_auc(attack_aucs(first, second, layout))))
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.03)


def test_the_original_is_flagged_by_both_audits() -> None:
    found = population_audit().estimates(measured(populations()[1].original))
    assert found.auc[VS_RETRAIN].auc > 0.6
    assert found.auc[U_LIRA].auc > 0.56  # of equal arms: 0.505, with a deviation of 0.01
    assert found.excess > 0.03
    assert epsilon_bound(found.taken).epsilon > 1.0  # a perfect attack would prove 2.1


def test_audits_of_retrains_find_nothing() -> None:
    """The null of each audit is at the level that its bias curve expects of equal arms."""
    audit, retrained = population_audit(), measured(populations()[2].original)
    curves, null = audit.curves(), audit.null()
    assert epsilon_bound(null.taken).epsilon == 0
    assert epsilon_bound(audit.estimates(retrained).taken).epsilon == 0
    assert null.auc[VS_RETRAIN].auc == pytest.approx(curves["null"].estimates[0][0], abs=0.05)
    assert leak(retrained, populations()[0].learned) == pytest.approx(0.5, abs=0.04)
    assert audit.estimates(retrained).excess == pytest.approx(0.0, abs=0.03)


def test_fedora_is_closer_to_retrain_than_the_original() -> None:
    drawn, original, _ = populations()
    before = measured(original.original)
    after = measured(run_population_method(original, "fedora").models)
    assert leak(after, drawn.learned) < leak(before, drawn.learned) - 0.05
    audit = population_audit()
    assert audit.estimates(after).distance < audit.estimates(before).distance


def test_later_requests_start_from_the_model_of_the_request_before() -> None:
    drawn, original, _ = populations()
    agreed, sizes = drawn.pooled.agreement, [len(each.forgotten) for each in original.sets]
    done = run_requests(original, "shrink-perturb", agreed, 2)
    epochs, first = agreed.unlearning.shrink_perturb.epochs, -(-sizes[0] // 2)
    remaining = len(drawn.retain) + sizes[0] - first  # rows of the second request are in D_r
    assert done.rows_embedded == epochs * (remaining + len(drawn.retain))
    before, after = (measured(each) for each in (original.original, done.models))
    assert leak(after, drawn.learned) < leak(before, drawn.learned) - 0.005


def test_later_requests_have_no_early_checkpoint() -> None:
    drawn, original, _ = populations()
    unlearning = drawn.pooled.agreement.unlearning
    changed = unlearning.fine_tune.model_copy(update={"start": "rewind"})
    agreed = drawn.pooled.agreement.model_copy(
        update={"unlearning": unlearning.model_copy(update={"fine_tune": changed})}
    )
    with pytest.raises(PolicyError, match="starts from an early checkpoint"):
        run_requests(original, "fine-tune", agreed, 2)


def test_random_models_are_distinguishable_from_retrains_but_leak_nothing() -> None:
    fresh = measured(pooled().fresh([f"random {run}" for run in range(RUNS)]))
    assert population_audit().estimates(fresh).auc[VS_RETRAIN].auc > 0.8
    assert leak(fresh, populations()[0].learned) == pytest.approx(0.5, abs=0.05)  # never seen


def test_uniform_outputs_are_distinguishable_from_retrains() -> None:
    flat = populations()[1].original.copy()
    flat.scale(torch.full((RUNS,), 0.01), "top.")
    assert population_audit().estimates(measured(flat)).auc[VS_RETRAIN].auc > 0.9


@pytest.mark.parametrize("way", ["short-retrain", "retrain-local"])
def test_exact_methods_leak_nothing_at_a_tenth_of_the_rows(way: str) -> None:
    drawn, original, _ = populations()
    done = run_population_method(original, way)
    assert leak(measured(done.models), drawn.learned) == pytest.approx(0.5, abs=0.05)
    epochs = drawn.pooled.agreement.training.epochs
    assert done.rows_embedded <= 0.11 * epochs * len(drawn.retain)


def test_canaries_have_their_wrong_label_in_every_run() -> None:
    planted = draw_forget_sets(pooled(), replace_request(canaries=20), RUNS)
    assert len(planted.pool) == 40
    assert len(planted.always) + 40 == len(draw_forget_sets(pooled(), REQUEST, RUNS).pool)
    assert (planted.pooled.labels[planted.pool] != pooled().labels[planted.pool]).all()


def replace_request(**changes: int) -> RowRequest:
    return RowRequest.model_validate(REQUEST.model_dump() | changes)


@pytest.mark.parametrize("runs", [30, 33])
def test_too_few_or_odd_runs_are_refused(runs: int) -> None:
    with pytest.raises(PolicyError, match="expected an even number of at least 32"):
        draw_forget_sets(pooled(), REQUEST, runs)


def test_request_with_a_file_is_refused() -> None:
    with pytest.raises(PolicyError, match="has no key 'classes'"):
        draw_forget_sets(pooled(), RowRequest(name="file"), RUNS)


def test_more_canaries_than_rows_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"names \d+ rows; expected at least 160"):
        draw_forget_sets(pooled(), replace_request(canaries=80), RUNS)


def test_models_with_sets_of_other_sizes_are_refused() -> None:
    _, original, _ = populations()
    uneven = [
        replace(original.sets[0], forgotten=original.sets[0].forgotten[:3]),
        *original.sets[1:],
    ]
    with pytest.raises(ValueError, match="the same number of rows"):
        run_population_method(replace(original, sets=uneven), "fine-tune")


def test_accuracy_covers_every_model() -> None:
    constant = pooled().fresh(["a", "b"])
    constant.scale(torch.zeros(2), "")
    with torch.no_grad():
        constant.parameters["top.perceptron.2.bias"][:] = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    data = pooled()
    share = float((data.labels[data.rows.test] == 0).double().mean())
    assert accuracies(data, constant, data.rows.test) == pytest.approx((share, 1 - share))


def test_ensemble_refuses_models_with_buffers() -> None:
    with pytest.raises(ValueError, match="running_mean"):
        Ensemble.of([torch.nn.BatchNorm1d(2)])
