"""Tests of the population audits: the null is calibrated, and known failures are detected."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from configs.agreement import RowRequest
from models.ensemble import Ensemble
from parties.common.errors import PolicyError
from parties.experiments.population.audit import PopulationAudit, population_accuracies
from parties.experiments.population.forget_sets import ForgetSet, draw_forget_sets
from parties.experiments.population.methods import run_population_method
from parties.experiments.population.pooled_data import PooledData
from parties.experiments.population.run import train_originals
from parties.experiments.population.trained import TrainedPopulation
from parties.vertical.engine.rows import RowSets
from parties.vertical.methods.registry import AGREEMENT
from protocol import vfl_pb2
from unlearning.audit.epsilon import epsilon_bound
from unlearning.audit.forgetting import label_log_odds
from unlearning.audit.lira import Arm, likelihood_ratio_audit

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
                "fedora": {"iterations": 10, "retain_share": 1.0, "batch": 25, "primal_step": 0.01}
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
        train_originals(drawn, "original", vfl_pb2.TRAIN_ROWS),
        train_originals(drawn, "retrain", vfl_pb2.RETAIN),
    )


@cache
def population_audit() -> PopulationAudit:
    drawn, _, retrained = populations()
    return PopulationAudit(drawn, retrained)


def test_each_run_trains_on_half_of_the_pool_and_pairs_are_complements() -> None:
    drawn = populations()[0]
    assert (drawn.learned.sum(axis=1) == len(drawn.pool) // 2).all()
    assert (drawn.learned[0::2] ^ drawn.learned[1::2]).all()
    rows = drawn.rows(3)
    assert set(rows.forgotten) == set(drawn.pool[drawn.learned[3]])
    assert not np.intersect1d(rows.retain, drawn.pool).size


def test_retrains_are_indistinguishable_from_retrains() -> None:
    drawn, _, retrained = populations()
    logits = drawn.pooled.logits(retrained.original, drawn.pool)
    values = label_log_odds(logits, drawn.pooled.labels[drawn.pool]).numpy()
    generator, aucs, within = np.random.default_rng(0), [], []
    for _ in range(40):
        order = generator.permutation(RUNS)
        arms = (Arm.whole(values[half]) for half in np.array_split(order, 2))
        result = likelihood_ratio_audit(*arms, generator, resamples=40, pairs=False)
        aucs.append(result.auc)
        within.append(abs(result.auc - 0.5) <= 2 * result.error)
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.02)
    assert np.mean(within) >= 0.85


def test_the_original_is_flagged_by_both_audits() -> None:
    audit = population_audit().audit_method(populations()[1].original)
    assert audit.vs_retrain.auc > 0.6
    assert audit.u_lira.auc > 0.5 + 5 * audit.u_lira.error
    assert audit.confidence_gap > 0
    assert epsilon_bound(audit.taken).epsilon > 1.0  # a perfect attack would prove 2.1


def test_epsilon_bound_of_retrains_is_zero() -> None:
    assert epsilon_bound(population_audit().null_counts()).epsilon == 0
    assert (
        epsilon_bound(population_audit().audit_method(populations()[2].original).taken).epsilon == 0
    )


def test_fedora_is_closer_to_retrain_than_the_original() -> None:
    original = populations()[1]
    before, after = (
        population_audit().audit_method(original.original),
        population_audit().audit_method(run_population_method(original, "fedora")),
    )
    assert after.u_lira.auc < before.u_lira.auc - 0.05
    assert after.distance[0] < before.distance[0]


def test_random_models_lose_accuracy_and_are_distinguishable_from_retrains() -> None:
    fresh = pooled().fresh([f"random {run}" for run in range(RUNS)])
    audit = population_audit().audit_method(fresh)
    assert audit.gap < -0.1
    assert audit.vs_retrain.auc > 0.8
    assert audit.u_lira.auc == pytest.approx(0.5, abs=0.05)  # it never saw any row


def test_uniform_outputs_are_distinguishable_from_retrains() -> None:
    flat = populations()[1].original.copy()
    flat.scale(torch.full((RUNS,), 0.01), "top.")
    assert population_audit().audit_method(flat).vs_retrain.auc > 0.9


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
    assert population_accuracies(data, constant) == pytest.approx((share, 1 - share))


def test_ensemble_refuses_models_with_buffers() -> None:
    with pytest.raises(ValueError, match="running_mean"):
        Ensemble.of([torch.nn.BatchNorm1d(2)])
