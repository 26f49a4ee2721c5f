"""Attacks compare rows of the same class: models without memory give 0.5, whatever the class mix.

The outputs of a model without memory depend on the class of a row, and never on whether the model
was trained on the row. Class 0 is certain, class 2 is uncertain; D_u and D_r have other class mixes
than the test rows.
"""

import numpy as np
import pytest
import torch
from three_parties import agreement
from torch import Tensor

from configs.agreement import RowRequest
from configs.config_file import validate_table
from parties.requests.driver import Cost
from parties.vertical.evaluation.attack_metrics import (
    membership_metrics,
    party_view_metrics,
    update_difference_metrics,
)
from parties.vertical.evaluation.canary_audit import canary_audit, canary_metrics
from parties.vertical.evaluation.model_outputs import ModelOutputs
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.row_groups import RowGroups
from parties.vertical.methods.registry import AGREEMENT
from unlearning.audit.intervals import Z
from unlearning.audit.membership import class_matched_rows
from unlearning.audit.metric import Measurement
from unlearning.audit.scores import auc

MIX = {  # rows of the classes 0, 1 and 2
    "forgotten": (10, 40, 150),
    "retained": (600, 300, 100),
    "validation": (20, 20, 20),
    "test": (200, 200, 200),
}
CERTAINTY = torch.tensor([8.0, 4.0, 1.0])  # of each class, in logits
RETRAINS = ("retrain", "retrain-2", "retrain-3")


def labels() -> dict[str, Tensor]:
    return {part: torch.arange(3).repeat_interleave(torch.tensor(n)) for part, n in MIX.items()}


def model(name: str, seed: int, remembered: tuple[str, ...] = ()) -> MethodOutcome:
    """Outputs that depend on the class, and on noise; rows that are remembered are more certain."""
    generator = torch.Generator().manual_seed(seed)
    logits = {}
    for part, truth in labels().items():
        logits[part] = torch.randn(len(truth), 3, generator=generator)
        extra = 3.0 if part in remembered else 0.0
        logits[part][torch.arange(len(truth)), truth] += CERTAINTY[truth] + extra
    return MethodOutcome(name, logits, Cost(1.0, 1, 1))


def outputs(*outcomes: MethodOutcome, canaries: int = 0) -> ModelOutputs:
    """The models with row groups as a run chooses them; the first ``canaries`` rows are planted."""
    generator, truth = np.random.default_rng(0), labels()
    halves = generator.permutation(len(truth["test"]))
    middle = len(halves) // 2
    forgotten = np.arange(len(truth["forgotten"]))
    pool = truth["test"][halves[middle:]]
    matched = class_matched_rows(truth["forgotten"][forgotten], pool, generator)
    groups = RowGroups(
        labels=truth,
        forgotten=forgotten[canaries:],
        members=generator.permutation(len(truth["retained"])),
        canaries=forgotten[:canaries],
        non_members=halves[:middle],
        matched=halves[middle:][matched],
        seed=3,
    )
    plan = validate_table(AGREEMENT, agreement(), "", "")
    comparison = Comparison(RowRequest(name="request", classes=("a",)), "fedora", list(outcomes))
    return ModelOutputs(plan, comparison, groups)


def assert_chance(figure: Measurement) -> None:
    """The value is within three standard errors of 0.5, and the interval is no wider than 0.2."""
    assert figure.value is not None
    assert figure.ci95 is not None
    low, high = figure.ci95
    error = (high - low) / (2 * Z)
    assert abs(figure.value - 0.5) < 3 * error
    assert high - low < 0.2


@pytest.mark.parametrize("seed", range(4))
def test_model_without_memory_has_chance_on_retained_rows(seed: int) -> None:
    models = outputs(model("original", 100 + seed), model("fedora", 200 + seed))
    for outcome in models.comparison.outcomes:
        assert_chance(membership_metrics(models, outcome)["retained_mia_auc"])


def test_other_class_mixes_would_look_like_memory() -> None:
    """The comparison of all retained rows with rows of D_u's class mix, as it was before."""
    models = outputs(model("original", 100), model("fedora", 200))
    retained = models.outputs(models.original, "retained")
    unseen = models.outputs(models.original, "test", models.row_groups.matched)
    certainty = [each.logits.max(dim=1).values.double().numpy() for each in (retained, unseen)]
    assert auc(*certainty) > 0.85


@pytest.mark.parametrize("seed", range(4))
def test_model_without_memory_has_chance_in_update_attacks(seed: int) -> None:
    models = outputs(model("original", 300 + seed), model("fedora", 400 + seed))
    figures = update_difference_metrics(models, models.comparison.delivered)
    assert set(figures) == {"update_auc_retained", "update_auc_unseen"}
    for figure in figures.values():
        assert_chance(figure)


def test_memory_of_retained_rows_is_found_within_classes() -> None:
    models = outputs(model("original", 1, ("retained",)), model("fedora", 2, ("retained",)))
    figure = membership_metrics(models, models.comparison.delivered)["retained_mia_auc"]
    assert figure.value is not None
    assert figure.value > 0.85
    assert figure.n == 500


def test_a_changed_forgotten_row_is_found_within_classes() -> None:
    models = outputs(model("original", 1, ("forgotten", "retained")), model("fedora", 2))
    figure = update_difference_metrics(models, models.comparison.delivered)["update_auc_unseen"]
    assert figure.value is not None
    assert figure.value > 0.8


def test_both_sides_of_an_update_attack_have_one_class_mix() -> None:
    models = outputs(model("original", 1), model("fedora", 2))
    forgotten, retained = models.attacked_pairs
    truth = models.row_groups.labels
    mixes = [
        torch.bincount(truth[part][rows]) / len(rows)
        for part, rows in (("forgotten", forgotten), ("retained", retained))
    ]
    assert torch.allclose(*mixes, atol=0.02)


@pytest.mark.parametrize(("last", "compared"), [(1, 50), (-1, 0)])
def test_class_without_retained_rows_is_not_compared(last: int, compared: int) -> None:
    """Only rows of the classes up to ``last`` remain, so the others cannot be compared."""
    models = outputs(model("original", 1), model("fedora", 2))
    truth = models.row_groups.labels
    truth["retained"] = truth["retained"].clamp_max(last)
    figure = update_difference_metrics(models, models.comparison.delivered)["update_auc_retained"]
    assert figure.n == compared
    assert (figure.value is None) == ("fewer than 5 rows" in figure.note) == (compared == 0)


def test_party_views_without_embeddings_are_left_out() -> None:
    models = outputs(model("original", 1), model("fedora", 2))
    assert party_view_metrics(models, models.comparison.delivered) == {}


def test_every_model_has_the_auc_on_canaries() -> None:
    """Canaries of class 0 carry the label 0, which the model that remembers them gives."""
    original = model("original", 1, ("forgotten",))
    models = outputs(original, model("fedora", 2), *(model(n, 9 + len(n)) for n in RETRAINS))
    assert canary_metrics(models, original) == {}
    planted = outputs(*models.comparison.outcomes, canaries=10)
    figures = [canary_metrics(planted, each)["canary_auc"] for each in planted.comparison.outcomes]
    assert all(each.n == 10 and each.ci95 is not None for each in figures)
    audit = canary_audit(planted, "FedORA")
    assert audit["auc"]["original"] == figures[0].value
    assert audit["limit"] > 1
    assert "interval of a further Retrain" in audit["result"]
