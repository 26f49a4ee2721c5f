"""Positive controls: models that the metrics must flag, and a Retrain that they must not flag."""

import numpy as np
import pytest
import torch
from three_parties import agreement

from configs.agreement import RowRequest
from configs.config_file import validate_table
from parties.requests.driver import Cost
from parties.vertical.evaluation.metrics import all_metrics
from parties.vertical.evaluation.model_outputs import ModelOutputs
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.row_groups import RowGroups
from parties.vertical.methods.registry import AGREEMENT

SIZES = {"forgotten": 80, "retained": 200, "validation": 40, "test": 240}
CLASSES, RETRAINS = 3, ("retrain", "retrain-2", "retrain-3")


def labels() -> dict[str, torch.Tensor]:
    return {part: torch.arange(size) % CLASSES for part, size in SIZES.items()}


def model(name: str, seed: int, remembers: tuple[str, ...] = ("retained",)) -> MethodOutcome:
    """Outputs that are closer to the true labels on rows that the model was trained on."""
    generator = torch.Generator().manual_seed(seed)
    logits = {}
    for part, truth in labels().items():
        logits[part] = 0.7 * torch.randn(len(truth), CLASSES, generator=generator)
        logits[part][torch.arange(len(truth)), truth] += 5.0 if part in remembers else 2.0
    embeddings = {part: logits[part] for part in ("forgotten", "test", "retained")}
    return MethodOutcome(name, logits, Cost(1.0, 1, 1), embeddings=embeddings)


def uniform() -> MethodOutcome:
    """Retrain's outputs, but uniform ones on D_u: over-forgotten."""
    outcome = model("uniform", 50)
    return MethodOutcome(
        "uniform",
        outcome.logits | {"forgotten": torch.zeros(SIZES["forgotten"], CLASSES)},
        outcome.cost,
        embeddings=outcome.embeddings,
    )


def random() -> MethodOutcome:
    generator = torch.Generator().manual_seed(60)
    logits = {p: torch.randn(n, CLASSES, generator=generator) for p, n in SIZES.items()}
    return MethodOutcome("random", logits, Cost(1.0, 1, 1), embeddings=dict(logits))


@pytest.fixture(scope="module")
def figures_of() -> dict[str, dict]:
    outcomes = [
        model("original", 1, ("retained", "forgotten")),
        model("fedora", 2),
        uniform(),
        random(),
        *(model(name, 10 + place) for place, name in enumerate(RETRAINS)),
    ]
    generator = np.random.default_rng(0)
    ground = RowGroups(
        labels=labels(),
        forgotten=np.arange(SIZES["forgotten"]),
        members=generator.permutation(SIZES["retained"]),
        canaries=np.empty(0, np.int64),
        non_members=np.arange(0, 120),
        matched=np.arange(120, 200),
        seed=3,
    )
    changes = {"evaluation": {"classifier_permutations": 19}}
    plan = validate_table(AGREEMENT, agreement(**changes), "", "")  # type: ignore[arg-type]
    comparison = Comparison(RowRequest(name="request", classes=("a",)), "fedora", outcomes)
    figures = all_metrics(ModelOutputs(plan, comparison, ground))
    return {name: {each.name: each.plain() for each in some} for name, some in figures.items()}


def test_original_is_flagged(figures_of: dict[str, dict]) -> None:
    figures = figures_of["original"]
    assert figures["mia_auc"]["value"] > 0.9
    assert figures["forgotten_loss"]["gap_in_sd"] < -3
    assert figures["energy_p"]["value"] < 0.02
    assert figures["ks_p"]["value"] < 0.01
    assert figures["c2st_p"]["value"] <= 0.05
    assert figures["forgotten_loss_toward_retrain"]["value"] == 0.0


def test_uniform_outputs_are_flagged_as_streisand_effect(figures_of: dict[str, dict]) -> None:
    figures = figures_of["uniform"]
    assert figures["streisand"]["value"] == 1.0
    assert figures["entropy_auc"]["value"] < 0.1
    assert figures["forgotten_entropy"]["gap_in_sd"] > 3
    assert figures["mia_distinguishability"]["value"] > 0.8  # below 0.5 is a leak too
    assert abs(figures["test_accuracy"]["gap"]) < 0.1  # utility alone does not reveal it


def test_a_random_model_fails_utility(figures_of: dict[str, dict]) -> None:
    figures = figures_of["random"]
    for name in ("test_accuracy", "retained_accuracy", "neighbour_accuracy"):
        assert figures[name]["value"] < 0.5 < figures[name]["retrain_mean"]
    assert figures["test_nll"]["gap_in_sd"] > 3


@pytest.mark.parametrize("name", ["fedora", *RETRAINS])
def test_model_trained_without_the_rows_is_not_flagged(
    figures_of: dict[str, dict], name: str
) -> None:
    """The delivered model is one more Retrain here: nothing is left to find."""
    figures = figures_of[name]
    assert abs(figures["mia_auc"]["value"] - 0.5) < 0.15
    assert figures["energy_p"]["value"] > 0.01
    assert figures["ks_p"]["value"] > 0.01
    assert abs(figures["forgotten_accuracy"]["gap"]) < 0.1
    assert (
        abs(figures["update_auc_unseen"]["value"] - figures["update_auc_unseen"]["retrain_mean"])
        < 0.2
    )
