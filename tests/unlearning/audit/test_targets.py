"""Figures of a number and of several binary labels: equal to scikit-learn's, or a reason."""

import numpy as np
import pytest
import torch
from sklearn.metrics import hamming_loss, r2_score, roc_auc_score

from unlearning.audit.membership import Outputs
from unlearning.audit.targets import (
    CONSTANT,
    NO_ROW,
    NOT_FINITE,
    SOME_LABEL,
    label_aucs,
    labels_figures,
    number_figures,
    paired_number_gains,
)


def numbers(rows: int = 200, error: float = 1.0) -> Outputs:
    """Predictions with errors of this size for random numbers."""
    draw = np.random.default_rng(1)
    truth = draw.normal(50, 10, rows)
    found = truth + draw.normal(0, error, rows)
    return Outputs(torch.from_numpy(found)[:, None], torch.from_numpy(truth))


def labels(rows: int = 200) -> Outputs:
    """Logits that know something of three random labels."""
    draw = np.random.default_rng(2)
    truth = (draw.random((rows, 3)) < (0.2, 0.5, 0.7)).astype(np.float64)
    return Outputs(torch.from_numpy(truth + draw.normal(-0.5, 1, truth.shape)), torch.tensor(truth))


def test_a_number_without_spread_has_no_r2_but_errors() -> None:
    found = number_figures(Outputs(torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])))
    assert found.absent == {"r2": CONSTANT}
    assert found.values == pytest.approx({"mae": 1.5, "rmse": 2.5**0.5})


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (Outputs(torch.empty(0, 1), torch.empty(0)), NO_ROW),
        (Outputs(torch.tensor([[1.0], [float("nan")]]), torch.tensor([1.0, 2.0])), NOT_FINITE),
    ],
)
def test_undefined_figures_have_a_reason(outputs: Outputs, reason: str) -> None:
    assert number_figures(outputs).absent == dict.fromkeys(("r2", "mae", "rmse"), reason)


def test_figures_of_several_labels_are_those_of_sklearn() -> None:
    outputs = labels()
    truth, scores = outputs.labels.numpy(), torch.sigmoid(outputs.logits).numpy()
    found = labels_figures(outputs)
    assert found.absent == {}
    assert found.values == pytest.approx(
        {
            "auc_macro": roc_auc_score(truth, scores, average="macro"),
            "auc_micro": roc_auc_score(truth, scores, average="micro"),
            "hamming_loss": hamming_loss(truth, scores > 0.5),
            "accuracy": ((scores > 0.5) == truth).all(axis=1).mean(),
        }
    )
    assert label_aucs(outputs) == pytest.approx(
        [roc_auc_score(truth[:, at], scores[:, at]) for at in range(3)]
    )


def test_label_that_is_the_same_in_all_rows_has_no_auc() -> None:
    outputs = labels()
    outputs.labels[:, 1] = 1.0
    found = labels_figures(outputs)
    assert found.absent == dict.fromkeys(("auc_macro", "auc_micro"), SOME_LABEL)
    assert set(found.values) == {"hamming_loss", "accuracy"}
    areas = label_aucs(outputs)
    assert areas[1] is None
    assert None not in (areas[0], areas[2])


def test_gains_are_differences_of_sklearns_figures_with_an_interval_around_them() -> None:
    better, base = numbers(error=1.0), numbers(error=6.0)
    truth = better.labels.numpy()
    gains = paired_number_gains(better, base, 3)
    scores = [r2_score(truth, each.logits[:, 0].numpy()) for each in (better, base)]
    assert gains["r2"].value == pytest.approx(scores[0] - scores[1])
    errors = [np.abs(each.logits[:, 0].numpy() - truth).mean() for each in (better, base)]
    assert gains["mae"].value == pytest.approx(errors[1] - errors[0])
    for gain in gains.values():
        assert gain.value is not None
        assert gain.ci95 is not None
        assert 0 < gain.ci95[0] < gain.value < gain.ci95[1]


def test_model_gains_nothing_over_itself() -> None:
    gains = paired_number_gains(numbers(), numbers(), 3)
    assert {name: (each.value, each.ci95) for name, each in gains.items()} == dict.fromkeys(
        ("r2", "mae"), (0.0, (0.0, 0.0))
    )
