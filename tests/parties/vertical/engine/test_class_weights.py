"""Weights of the classes in the training loss of the split model, and in the unlearning methods."""

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from monolith import Monolith
from monolith_difference import BATCH, EPOCHS, OPTIMISERS, batches, largest_difference
from other_labels import NUMBER
from prediction_parties import predict_rows
from sklearn.utils.class_weight import compute_class_weight
from three_parties import PARTIES, agreement, inputs, networks, open_split_model, start_training
from torch import Tensor
from torch.nn.functional import cross_entropy
from whole_run import TRAINING, run

import configs
from configs.config_file import validate_table
from configs.errors import ConfigError
from models.targets import ClassTarget, balanced_weights
from parties.common.errors import PolicyError
from parties.experiments.population.pooled_data import read_pooled_data
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.engine.training_loop import HOLD
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.methods.run import Batch, Loss, hold_forget_gradient
from parties.vertical.methods.train_model import train_model
from protocol import vfl_pb2

TABLE = {"a": 0.5, "b": 1.0, "c": 4.0}
TWENTY = {"learning_rate": 0.01, "batch": BATCH, "epochs": EPOCHS}


class WeightedMonolith(Monolith):
    """One process with PyTorch's weighted cross entropy."""

    weights: Tensor

    def loss(self, rows: Any) -> Tensor:
        """The sum of the weighted losses, divided by the number of rows."""
        found = cross_entropy(self.logits(rows), self.labels[rows], self.weights, reduction="sum")
        return found / len(rows)


def write_imbalanced(folder: Path, rows: int) -> None:
    """Write three tables in which one row of twelve is of class b or c, and classes overlap."""
    generator = np.random.default_rng(7)
    label = generator.choice(3, rows, p=[11 / 12, 1 / 24, 1 / 24])
    for name in PARTIES:
        values = generator.normal(size=(rows, 3))
        values[:, :2] += np.eye(3)[label][:, 1:] * 0.9
        lines = ["id,x,y,z" + (",label" if name == "hub" else "")]
        for row in generator.permutation(rows):
            cells = [f"p{row}", *(f"{value:.6f}" for value in values[row])]
            lines.append(",".join([*cells, *(["abc"[label[row]]] if name == "hub" else [])]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def weights_of(split_model: SplitModel) -> list[float]:
    """The weights of the classes in the present model's loss."""
    target = split_model.target
    assert isinstance(target, ClassTarget)
    assert target.weights is not None
    return list(target.weights.tolist())


def expected_weights(labels: Tensor) -> list[float]:
    """The balanced weights of scikit-learn for ``labels``."""
    known = labels.numpy()
    return list(compute_class_weight("balanced", classes=np.unique(known), y=known))


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("agreed", ["balanced", TABLE], ids=["balanced", "table"])
def test_parameters_equal_those_of_one_process(tmp_path: Path, agreed: Any, optimiser: str) -> None:
    training = TWENTY | {"optimiser": optimiser, "class_weights": agreed}
    with open_split_model(tmp_path, 300, write_imbalanced, training=training) as found:
        split_model, sessions = found
        start_training(split_model, "original")
        known = split_model.labels[split_model.rows.train]
        expected = expected_weights(known) if agreed == "balanced" else list(TABLE.values())
        assert weights_of(split_model) == pytest.approx(expected, rel=1e-12)
        model = WeightedMonolith.copy(
            networks(split_model, sessions), inputs(split_model, sessions), split_model.labels
        )
        model.weights = torch.tensor(expected, dtype=torch.float64)
        descent = OPTIMISERS[optimiser](model.parameters, 0.01)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH))
        steps = EPOCHS * -(-len(split_model.rows.train) // BATCH)
        for batch in islice(batches(split_model, vfl_pb2.TRAIN_ROWS), steps):
            descent.zero_grad()
            model.loss(batch).backward()
            descent.step()
        assert largest_difference(split_model, sessions, model) < 1e-8


def test_two_halves_of_a_batch_have_its_loss() -> None:
    """Micro-batches add up to the batch, which the mean of PyTorch's weighted loss does not."""
    target, generator = ClassTarget(3), torch.Generator().manual_seed(1)
    target.weigh([0.5, 1.0, 4.0])
    logits, labels = torch.randn(8, 3, generator=generator), torch.tensor([0, 0, 0, 1, 2, 2, 1, 2])
    halves = [target.loss(logits[part], labels[part]) for part in (slice(4), slice(4, 8))]
    assert torch.isclose(sum(halves) / 2, target.loss(logits, labels))
    own = ClassTarget()
    assert torch.equal(own.loss(logits, labels), cross_entropy(logits, labels))


def test_class_without_a_row_has_weight_one() -> None:
    labels = torch.tensor([0, 0, 0, 2])
    first, last = expected_weights(labels)
    assert balanced_weights(labels, 4) == pytest.approx([first, 1.0, last, 1.0])


def _recall(folder: Path, weights: str | None) -> float:
    training = TWENTY | {"epochs": 8, "class_weights": weights}
    with open_split_model(folder, 900, write_imbalanced, training=training) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        predicted = split_model.logits(vfl_pb2.TEST).argmax(dim=1)
        rare = split_model.labels[split_model.rows.test] > 0
        assert int(rare.sum()) >= 8
        return (predicted > 0)[rare].double().mean().item()


def test_balanced_weights_raise_the_recall_of_rare_classes(tmp_path: Path) -> None:
    for name in ("plain", "weighted"):
        (tmp_path / name).mkdir()
    plain, weighted = _recall(tmp_path / "plain", None), _recall(tmp_path / "weighted", "balanced")
    assert weighted > plain + 0.2


def test_methods_and_retrain_use_the_weights_of_the_remaining_rows(tmp_path: Path) -> None:
    training = TWENTY | {"epochs": 1, "class_weights": "balanced"}
    with open_split_model(tmp_path, 300, write_imbalanced, training=training) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before, rows = weights_of(split_model), split_model.rows
        common = rows.train[(split_model.labels[rows.train] == 0).numpy()]
        split_model.forget(common[:100])
        expected = expected_weights(split_model.labels[split_model.rows.retain])
        run = NetworkRun(split_model)
        run.start("original", "fine-tune")
        assert weights_of(split_model) == pytest.approx(expected)
        assert max(map(abs, np.subtract(before, expected))) > 0.1
        train_model(split_model, vfl_pb2.RETAIN, "retrain", "retrain")
        assert weights_of(split_model) == pytest.approx(expected)


def test_losses_of_the_methods_are_weighted(tmp_path: Path) -> None:
    with open_split_model(tmp_path, training=TRAINING | {"class_weights": TABLE}) as found:
        split_model, _ = found
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        split_model.forget(split_model.rows.train[:30])
        run, sides = NetworkRun(split_model), list[float]()
        run.start("original", "fine-tune")
        weights = torch.tensor([*TABLE.values()], dtype=torch.float64)
        # The loss on D_u has no weights: it is compared with the loss of a uniform guess.
        for rows, used in ((vfl_pb2.FORGOTTEN, None), (vfl_pb2.RETAIN, weights)):
            logits, labels = (
                split_model.logits(rows),
                split_model.labels[split_model.rows.select(rows)],
            )
            sides.append(cross_entropy(logits, labels, used, reduction="sum").item() / len(labels))
        assert hold_forget_gradient(run) == pytest.approx(sides[:1], rel=1e-6)
        seen: list[float] = []

        def act(batch: Batch) -> Loss:
            seen.append(batch.loss().item() * batch.rows.shape[1])
            return Loss(batch.loss(), HOLD)

        run.run_batches(run.pass_requests(vfl_pb2.RETAIN), act)
        assert sum(seen) / len(split_model.rows.retain) == pytest.approx(sides[1], rel=1e-9)


def test_requests_and_predictions_of_a_weighted_model(tmp_path: Path) -> None:
    plan = {
        "training": TRAINING | {"class_weights": "balanced"},
        "unlearn": [{"name": "some", "classes": ["b"], "fraction": 0.4}],
    }
    metrics = run(tmp_path, **plan)
    methods = {each["name"]: each for each in metrics["requests"][0]["methods"]}
    assert {"fedora", "fine-tune", "relabel", "gradient-ascent"} <= set(methods)
    assert {name for name, each in methods.items() if each["stopped"]} <= {"fedora"}
    assert metrics["failure"] is None
    found = predict_rows(tmp_path, ["p1", "p2"], agreement(**plan))
    assert found.probabilities.shape[1] == 3
    plain = agreement(**{**plan, "training": TRAINING})
    with pytest.raises(ConfigError, match=r"another agreement.*weighted_classes"):
        predict_rows(tmp_path, ["p1"], plain)


def test_correction_uses_the_weights_of_the_corrected_labels(tmp_path: Path) -> None:
    training = TWENTY | {"epochs": 1, "class_weights": "balanced"}
    plan: dict[str, Any] = {
        "training": training,
        "unlearn": [{"name": "some", "corrects": True}],
        "unlearning": {"method": "fine-tune", "compare": (), "retrains": 0},
    }
    with open_split_model(tmp_path, 300, write_imbalanced, **plan) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        rows = split_model.rows.train[:20]
        own = (split_model.labels[rows].numpy() + 1) % 3
        split_model.correct(rows, split_model.labels[rows].numpy(), own)
        rule = UpdateRule.like_training(split_model.agreement.training, 1e-3)
        NetworkRun(split_model).start("original", "fine-tune", rule)
        expected = expected_weights(split_model.labels[split_model.rows.train])
        assert weights_of(split_model) == pytest.approx(expected)


def test_study_of_many_models_refuses_class_weights() -> None:
    config = Path(configs.__file__).parent / "vertical" / "digits.toml"
    with pytest.raises(PolicyError, match=r"no class weights, but digits.toml has"):
        read_pooled_data(config, None, ('training.class_weights="balanced"',))


def agreed(**changes: Any) -> Any:
    """The agreement of the three parties with some changes."""
    return validate_table(AGREEMENT, agreement(**changes), Path("plan.toml"), "")


def weighted(weights: Any, **changes: Any) -> dict[str, Any]:
    """The changes with class weights in the table [training]."""
    return {**changes, "training": {"class_weights": weights, **changes.get("training", {})}}


SUM = {
    "parties": {
        name: each | {"width": 3, "bottom": {"kind": "mlp", "hidden": []}}
        for name, each in agreement()["parties"].items()
    },
    "top": {"kind": "sum"},
    "preprocessing": "declared",
}
SHARDED = {
    "preprocessing": "declared",
    "sharding": {"shards": 2},
    "unlearning": {"method": "sharded", "compare": ()},
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (weighted({"a": 1.0, "b": 1.0}), "one number for each class: a, b, c"),
        (weighted({**TABLE, "d": 1.0}), "one number for each class: a, b, c"),
        (weighted({}), r"one number for each class: a, b, c \(got: none\)"),
        (weighted({**TABLE, "c": 0.0}), r"class_weights.*c.*greater than 0"),
        (weighted({**TABLE, "c": -1.0}), r"class_weights.*c.*greater than 0"),
        (weighted({**TABLE, "c": math.inf}), r"class_weights.*c.*finite"),
        (weighted({**TABLE, "c": math.nan}), r"class_weights.*c"),
        (weighted("even"), "class_weights"),
        (weighted("balanced", labels=NUMBER), "training.class_weights needs labels"),
        (
            weighted(TABLE, labels={"task": "multilabel", "classes": ["a", "b", "c"]}),
            "training.class_weights needs labels",
        ),
        (
            weighted(TABLE, **SUM, training={"optimiser": "newton-cg"}),
            "certificate for the loss without class weights",
        ),
        (weighted("balanced", **SHARDED), "class_weights = 'balanced', because the weights"),
    ],
)
def test_weights_that_cannot_hold_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        agreed(**changes)


def test_table_of_weights_is_possible_with_shards() -> None:
    assert agreed(**weighted(TABLE, **SHARDED)).training.class_weights == TABLE


def test_agreement_without_weights_keeps_its_canonical_form() -> None:
    plain = agreed()
    assert "class_weights" not in plain.canonical()["training"]
    assert "weighted_classes" not in plain.architecture
    assert agreed(**weighted(TABLE)).canonical()["training"]["class_weights"] == TABLE
    assert agreed(**weighted(TABLE)).architecture["weighted_classes"] is True
