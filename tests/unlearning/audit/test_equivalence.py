"""Tests of the equivalence test over seeds, with synthetic seeds."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from unlearning.audit.equivalence import LEVEL, equivalence_over_seeds

SEEDS, MODELS, STUDIES = 5, 32, 400
SPREAD = 0.5  # of the seeds' effects, in standard deviations of a single Retrain model


def studies_at_the_margin() -> np.ndarray:
    """Metrics with a true difference of one margin, [studies, arms, seeds, models]."""
    generator = np.random.default_rng(3)
    metrics = generator.normal(size=(STUDIES, 2, SEEDS, MODELS))
    metrics[:, 0] += 1.0 + generator.normal(0, SPREAD, (STUDIES, SEEDS, 1))
    return metrics


def test_a_difference_at_the_margin_is_rarely_called_equivalent() -> None:
    shown = [equivalence_over_seeds(*each).shown for each in studies_at_the_margin().tolist()]
    standard_error = sqrt(LEVEL * (1 - LEVEL) / STUDIES)
    assert np.mean(shown) == pytest.approx(LEVEL, abs=3 * standard_error)


def pooled_p(ours: np.ndarray, retrains: np.ndarray) -> float:
    """The p-value of a TOST that treats all models as independent, with large samples."""
    error = np.sqrt((ours.var(ddof=1) + retrains.var(ddof=1)) / len(ours))
    return float(norm.sf((retrains.std(ddof=1) - abs(ours.mean() - retrains.mean())) / error))


def test_pooled_models_are_often_called_equivalent_at_the_margin() -> None:
    # The reason for the test over seeds: models of one seed are not independent.
    shown = [
        pooled_p(ours.ravel(), retrains.ravel()) < LEVEL
        for ours, retrains in studies_at_the_margin()[:100]
    ]
    assert np.mean(shown) > 0.2  # four times the level


def test_seed_equivalence_by_hand() -> None:
    # Retrains: sd √2 in every seed. Differences −0.1, 0, 0.1 and sd 0.1, so t = √2 / (0.1 / √3).
    retrains = [[-1.0, 1.0]] * 3
    result = equivalence_over_seeds([[-0.1], [0.0], [0.1]], retrains)
    assert result.difference == pytest.approx(0)
    assert result.margin == pytest.approx(sqrt(2))
    assert result.p == pytest.approx(student.sf(sqrt(2) / (0.1 / sqrt(3)), 2))
    assert (result.seeds, result.needed, result.shown) == (3, 2, True)


def test_needed_seeds_reach_the_power() -> None:
    generator = np.random.default_rng(4)
    needed = equivalence_over_seeds([[-1.0], [1.0]], [[-1.0, 1.0]] * 2).needed
    effects = generator.normal(0, sqrt(2), (STUDIES, needed, 1))  # the spread of the two seeds
    shown = [
        equivalence_over_seeds(each, [[-1.0, 1.0]] * needed).shown for each in effects.tolist()
    ]
    assert 0.8 - 3 * sqrt(0.8 * 0.2 / STUDIES) < np.mean(shown) < 0.9


@pytest.mark.parametrize(
    ("ours", "retrains"),
    [
        ([[1.0]], [[1.0, 2.0]]),
        ([[1.0], [2.0]], [[1.0, 2.0]]),
        ([[1.0], [2.0]], [[1.0], [2.0]]),
        ([[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]]),
    ],
)
def test_too_few_seeds_or_equal_retrains_are_refused(
    ours: list[list[float]], retrains: list[list[float]]
) -> None:
    with pytest.raises(ValueError, match="an equivalence test over seeds needs 2 or more seeds"):
        equivalence_over_seeds(ours, retrains)
