"""Weights of the rows in the training loss of the split model, and in the unlearning methods."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kept_trio import KeptTrio, train_trio
from monolith import Monolith
from monolith_difference import BATCH, EPOCHS, OPTIMISERS, batches, largest_difference
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from prediction_parties import predict_rows
from row_weights import Write, add_weights, weighted, weights_in_table
from test_continued import keep_first_rows
from test_every_method import ALL, LESS, votes
from three_parties import agreement, inputs, networks, open_split_model, start_training, write_data
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from whole_run import QUICK, TRAINING, run

import configs
from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.common.errors import DataError, PolicyError
from parties.experiments.population.pooled_data import read_pooled_data
from parties.session.setup import NEWEST
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.engine.training_loop import HOLD
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.methods.run import Batch, Loss, hold_forget_gradient
from parties.vertical.methods.train_model import train_model
from parties.vertical.passive import PassiveSession
from parties.vertical.purge import purge_request, search_residues
from protocol import vfl_pb2

WEIGHTED = {"learning_rate": 0.01, "batch": BATCH, "epochs": EPOCHS, "sample_weights": True}
CLASS_WEIGHTS = {"a": 0.5, "b": 1.0, "c": 4.0}
Sessions = Mapping[str, PassiveSession]
ALL_ROWS = 220  # at least as many as the training rows, at most those of a party


class WeightedMonolith(Monolith):
    """One process with PyTorch's losses of rows, times the weights of the rows."""

    weights: Tensor
    mean = 1.0  # of the weights of all training rows
    loss_of_number = "squared"
    class_weights: Tensor | None = None

    def losses(self, rows: Any) -> Tensor:
        """The loss of each row without its weight."""
        found, labels = self.logits(rows), self.labels[rows]
        if labels.dim() == 2:
            return binary_cross_entropy_with_logits(found, labels, reduction="none").mean(dim=1)
        if labels.is_floating_point():
            error = found[:, 0] - labels
            return error.abs() if self.loss_of_number == "absolute" else error.square()
        return cross_entropy(found, labels, self.class_weights, reduction="none")

    def loss(self, rows: Any) -> Tensor:
        """The sum of the weighted losses, divided by the rows and the mean weight."""
        return (self.weights[rows] * self.losses(rows)).sum() / len(rows) / self.mean


def weights_of(split_model: SplitModel, folder: Path) -> Tensor:
    """The weights of the common rows, as the table has them."""
    ids = split_model.state.features.ids()
    return torch.from_numpy(weights_in_table(folder, ids))


def one_process(
    split_model: SplitModel, sessions: Sessions, folder: Path, loss_of_number: str = "squared"
) -> WeightedMonolith:
    """The present model in one process; a number is standardised with the weights."""
    labels, weights = split_model.labels.clone(), weights_of(split_model, folder)
    train = split_model.rows.train
    if split_model.agreement.labels.task == "regression":
        mean = np.average(labels[train], weights=weights[train])
        square = np.average((labels[train] - mean) ** 2, weights=weights[train])
        labels = (labels - mean) / np.sqrt(square)
    model = WeightedMonolith.copy(
        networks(split_model, sessions), inputs(split_model, sessions), labels
    )
    model.weights, model.mean = weights, weights[train].mean().item()
    model.loss_of_number = loss_of_number
    return model


CASES: dict[str, tuple[Write, dict[str, Any]]] = {
    "classes": (write_data, {}),
    "class weights": (write_data, {"training": {"class_weights": CLASS_WEIGHTS}}),
    "squared": (write_diabetes, {"labels": NUMBER}),
    "absolute": (write_diabetes, {"labels": NUMBER | {"loss": "absolute"}}),
    "several labels": (write_multilabel, {"labels": LABELS}),
    "micro-batches": (write_data, {"training": {"overlap": "microbatch"}}),
}


@pytest.mark.parametrize(
    ("case", "optimiser"), [*((case, "adam") for case in CASES), ("classes", "sgd")]
)
def test_parameters_equal_those_of_one_process(tmp_path: Path, case: str, optimiser: str) -> None:
    write, changes = CASES[case]
    training = WEIGHTED | {"optimiser": optimiser} | changes.get("training", {})
    plan = {**changes, "training": training}
    with open_split_model(tmp_path, 300, weighted(write), **plan) as (split_model, sessions):
        start_training(split_model, "original")
        loss = changes.get("labels", {}).get("loss", "squared")
        model = one_process(split_model, sessions, tmp_path, loss)
        if "class_weights" in training:
            model.class_weights = torch.tensor([*CLASS_WEIGHTS.values()], dtype=torch.float64)
        descent = OPTIMISERS[optimiser](model.parameters, 0.01)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH))
        steps = EPOCHS * -(-len(split_model.rows.train) // BATCH)
        for batch in islice(batches(split_model, vfl_pb2.TRAIN_ROWS), steps):
            descent.zero_grad()
            model.loss(batch).backward()
            descent.step()
        assert largest_difference(split_model, sessions, model) < 1e-8


def descend_with_all_rows(
    split_model: SplitModel, model: WeightedMonolith, rows: Any, weights: Tensor
) -> None:
    """Take a few steps with all rows at once, on both sides; one process uses sum(w l) / sum(w)."""
    assert len(split_model.rows.train) <= ALL_ROWS
    descent = torch.optim.SGD(model.parameters, 0.01)
    train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, ALL_ROWS))
    for _ in range(EPOCHS):
        descent.zero_grad()
        ((weights * model.losses(rows)).sum() / weights.sum()).backward()
        descent.step()


@pytest.mark.parametrize("case", ["classes", "squared", "absolute", "several labels"])
def test_all_rows_at_once_have_the_loss_of_scikit_learn(tmp_path: Path, case: str) -> None:
    write, changes = CASES[case]
    plan = {**changes, "training": WEIGHTED | {"optimiser": "sgd", "batch": ALL_ROWS}}
    with open_split_model(tmp_path, 300, weighted(write), **plan) as (split_model, sessions):
        start_training(split_model, "original")
        loss = changes.get("labels", {}).get("loss", "squared")
        model, rows = one_process(split_model, sessions, tmp_path, loss), split_model.rows.train
        descend_with_all_rows(split_model, model, rows, model.weights[rows])
        assert largest_difference(split_model, sessions, model) < 1e-8


@pytest.mark.parametrize(("values", "repeats"), [((0.0, 1.0), None), ((1.0, 2.0), 2)])
def test_weight_is_the_number_of_times_that_a_row_counts(
    tmp_path: Path, values: tuple[float, ...], repeats: int | None
) -> None:
    """Weight 0: as if the row were absent from the loss; weight 2: as if it were there twice."""
    plan = {"training": WEIGHTED | {"optimiser": "sgd", "batch": ALL_ROWS}}
    write = weighted(write_data, values)
    with open_split_model(tmp_path, 240, write, **plan) as (split_model, sessions):
        start_training(split_model, "original")
        model, train = one_process(split_model, sessions, tmp_path), split_model.rows.train
        times = model.weights[train].long().numpy()
        assert set(times) == {int(each) for each in values}
        rows = np.repeat(train, times)
        assert (len(rows) > len(train)) is (repeats is not None)
        descend_with_all_rows(split_model, model, rows, torch.ones(len(rows)))
        assert largest_difference(split_model, sessions, model) < 1e-8


def _trained(folder: Path, change: Any) -> dict[str, Tensor]:
    folder.mkdir()

    def write(folder: Path, rows: int) -> None:
        weighted(write_data)(folder, rows)
        change(folder / "hub.csv")

    with open_split_model(folder, 240, write, training=WEIGHTED) as (split_model, sessions):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        found = networks(split_model, sessions).items()
        return {
            f"{name}.{key}": each.clone()
            for name, network in found
            for key, each in network.named_parameters()
        }


def _relabel(table: Path, *, weight: float) -> None:
    """Give the rows with this weight another label."""
    header, *lines = table.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    other = {"a": "b", "b": "c", "c": "a"}
    for row in rows:
        if float(row[-1]) == weight:
            row[-2] = other[row[-2]]
    table.write_text("\n".join([header, *map(",".join, rows)]) + "\n")


def _times_thousand(table: Path) -> None:
    header, *lines = table.read_text().splitlines()
    rows = [line.rpartition(",") for line in lines]
    scaled = [f"{start},{1000 * float(weight)}" for start, _, weight in rows]
    table.write_text("\n".join([header, *scaled]) + "\n")


def _largest(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    return max((one[key] - other[key]).abs().max().item() for key in one)


def test_label_of_a_row_without_weight_has_no_effect(tmp_path: Path) -> None:
    plain = _trained(tmp_path / "plain", lambda _: None)
    none = _trained(tmp_path / "none", lambda table: _relabel(table, weight=0.0))
    some = _trained(tmp_path / "some", lambda table: _relabel(table, weight=0.5))
    assert _largest(plain, none) == 0
    assert _largest(plain, some) > 1e-3


def test_only_the_ratios_of_the_weights_count(tmp_path: Path) -> None:
    plain = _trained(tmp_path / "plain", lambda _: None)
    scaled = _trained(tmp_path / "scaled", _times_thousand)
    assert _largest(plain, scaled) < 1e-9


# --- requests ---------------------------------------------------------------------------------


def mean_weight(split_model: SplitModel) -> float:
    """The mean by which the present model divides the weights."""
    network = split_model.local_model.model.network
    assert isinstance(network, ActiveNetwork)
    assert network.mean_weight is not None
    return network.mean_weight.item()


def test_methods_and_retrain_use_the_weights_of_the_remaining_rows(tmp_path: Path) -> None:
    training = WEIGHTED | {"epochs": 1}
    with open_split_model(tmp_path, 240, weighted(write_data), training=training) as found:
        split_model, _ = found
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        weights, rows = weights_of(split_model, tmp_path), split_model.rows
        assert mean_weight(split_model) == pytest.approx(weights[rows.train].mean().item())
        heavy = rows.train[(weights[rows.train] > 2).numpy()]
        split_model.forget(heavy)
        expected = weights[split_model.rows.retain].mean().item()
        run = NetworkRun(split_model)
        run.start("original", "fine-tune")
        assert mean_weight(split_model) == pytest.approx(expected)
        sides: list[float] = []
        # The loss on D_u has no weights: it is compared with the loss of a uniform guess.
        for part, used in ((vfl_pb2.FORGOTTEN, weights**0), (vfl_pb2.RETAIN, weights / expected)):
            chosen = split_model.rows.select(part)
            logits, labels = split_model.logits(part), split_model.labels[chosen]
            losses = used[chosen] * cross_entropy(logits, labels, reduction="none")
            sides.append(losses.mean().item())
        assert hold_forget_gradient(run) == pytest.approx(sides[:1], rel=1e-6)
        seen: list[float] = []

        def act(batch: Batch) -> Loss:
            seen.append(batch.loss().item() * batch.rows.shape[1])
            return Loss(batch.loss(), HOLD)

        run.run_batches(run.pass_requests(vfl_pb2.RETAIN), act)
        assert sum(seen) / len(split_model.rows.retain) == pytest.approx(sides[1], rel=1e-9)
        train_model(split_model, vfl_pb2.RETAIN, "retrain", "retrain")
        assert mean_weight(split_model) == pytest.approx(expected)


def test_every_shard_has_a_mean_of_its_own(tmp_path: Path) -> None:
    plan = {"training": WEIGHTED | {"epochs": 1}, **SHARDED}
    with open_split_model(tmp_path, 240, weighted(write_data), **plan) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        weights, means = weights_of(split_model, tmp_path), []
        for shard, slot in enumerate(split_model.ensemble):
            split_model.restore_copy(slot, "read", vfl_pb2.EVALUATE)
            rows = split_model.rows.train[split_model.state.shards[split_model.rows.train] == shard]
            means.append(weights[rows].mean().item())
            assert mean_weight(split_model) == pytest.approx(means[-1])
        assert len({*means}) == 2


def test_purge_erases_weights_and_the_search_finds_one_that_is_left(tmp_path: Path) -> None:
    with open_split_model(tmp_path, 240, weighted(write_data), training=WEIGHTED) as found:
        split_model, _ = found
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        gone = np.sort(split_model.rows.train[:20])
        split_model.forget(gone)
        split_model.checkpoint()
        assert "weights of rows" in search_residues(split_model)["hub"]
        assert any(each.startswith("weights of rows in checkpoint") for each in
                   search_residues(split_model)["hub"])  # fmt: skip
        purged = purge_request(split_model, "some")
        assert "row map, features, labels and weights of 20 rows" in purged["hub"]
        assert search_residues(split_model) == {"hub": [], "left": [], "right": []}
        weights = split_model.loop.weights
        assert weights is not None
        assert int(weights.isnan().sum()) == 20
        weights[int(gone[3])] = 0.0
        assert search_residues(split_model)["hub"] == ["weights of rows"]


def test_correction_leaves_the_weights(tmp_path: Path) -> None:
    plan: dict[str, Any] = {
        "training": WEIGHTED | {"epochs": 1},
        "unlearn": [{"name": "some", "corrects": True}],
        "unlearning": {"method": "fine-tune", "compare": (), "retrains": 0},
    }
    with open_split_model(tmp_path, 240, weighted(write_data), **plan) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        rows = split_model.rows.train[:20]
        known = split_model.labels[rows].numpy()
        split_model.correct(rows, known, (known + 1) % 3)
        rule = UpdateRule.like_training(split_model.agreement.training, 1e-3)
        NetworkRun(split_model).start("original", "fine-tune", rule)
        weights = weights_of(split_model, tmp_path)
        expected = weights[split_model.rows.train].mean().item()
        assert mean_weight(split_model) == pytest.approx(expected)
        purge_request(split_model, "some")
        assert split_model.loop.weights is not None
        assert torch.equal(split_model.loop.weights, weights)


def test_every_method_runs_with_weights_and_predicts_without(tmp_path: Path) -> None:
    methods = {"compare": (*ALL, "cvfu", "scrub"), "scrub": {"epochs": 1, "forget_epochs": 1}}
    plan = {
        "training": TRAINING | {"sample_weights": True, "class_weights": "balanced"},
        "unlearn": [{"name": "some", "classes": ["b"], "fraction": 0.4}],
        "unlearning": QUICK | LESS | methods,
        **votes(),
    }
    metrics = run(tmp_path, before=add_weights, **plan)
    found = {each["name"]: each for each in metrics["requests"][0]["methods"]}
    assert {"fedora", *ALL, "cvfu", "scrub", "retrain-paired"} <= set(found)
    assert {name for name, each in found.items() if each["stopped"]} <= {"fedora"}
    assert metrics["failure"] is None
    # The table to predict needs neither labels nor weights.
    write_data(tmp_path)
    assert predict_rows(tmp_path, ["p1", "p2"], agreement(**plan)).probabilities.shape[1] == 3
    plain = agreement(**{**plan, "training": TRAINING | {"class_weights": "balanced"}})
    with pytest.raises(ConfigError, match=r"another agreement.*weighted_rows"):
        predict_rows(tmp_path, ["p1"], plain)


def stored_weights(trio: KeptTrio) -> tuple[Tensor, Any]:
    """The weights in the newest version of the active party, and the content of the version."""
    store = trio.models()["hub"]
    newest = store.newest_version()
    assert newest is not None
    content = store.read(newest.number)
    return content.tensors["labels"]["weights"], content


@pytest.mark.parametrize("method", ["retrain-local", "fine-tune"])
def test_version_after_a_request_has_no_weight_of_a_forgotten_row(
    tmp_path: Path, method: str
) -> None:
    unlearning = {"method": method, "compare": (), "retrains": 0}
    training = {**TRAINING, "batch": 16, "sample_weights": True}
    trio = train_trio(tmp_path, 240, weighted(write_data), training=training, unlearning=unlearning)
    before, _ = stored_weights(trio)
    assert not bool(before.isnan().any())
    gone = [3, 5, 8, 21]
    request = trio.request("left", gone)
    trio.carry_out(requests={"guard": 1.0})
    assert trio.view("hub", request).state.value == "certified"
    after, content = stored_weights(trio)
    assert after.isnan().nonzero().flatten().tolist() == gone
    kept = ~after.isnan()
    assert torch.equal(after[kept], before[kept])
    rows = content.tensors["rows"]["train"]
    expected = after[rows].mean().item()
    assert content.tensors["network 0"]["mean_weight"].item() == pytest.approx(expected)


def test_new_rows_of_a_continued_training_have_their_weights(tmp_path: Path) -> None:
    def write(folder: Path, rows: int) -> None:
        weighted(write_data)(folder, rows)
        keep_first_rows(folder, 200)

    training = {**TRAINING, "batch": 16, "sample_weights": True}
    unlearning = {"method": "fine-tune", "compare": (), "retrains": 0}
    trio = train_trio(tmp_path, 240, write, training=training, unlearning=unlearning)
    few, _ = stored_weights(trio)
    weighted(write_data)(tmp_path, 240)
    trio.train(versions=dict.fromkeys(trio.names, NEWEST))
    weights, content = stored_weights(trio)
    assert len(weights) > len(few)
    table = weights_in_table(tmp_path, unpack_ids(content.tensors["ids"]))
    assert weights.tolist() == table.tolist()
    mean = weights[content.tensors["rows"]["train"]].mean().item()
    assert content.tensors["network 0"]["mean_weight"].item() == pytest.approx(mean)
    trio.plan = {**trio.plan, "training": {**training, "sample_weights": False}}
    with pytest.raises(DataError, match="which nothing uses"):
        trio.train(versions=dict.fromkeys(trio.names, NEWEST))


# --- refusals ---------------------------------------------------------------------------------


def agreed(**changes: Any) -> Any:
    """The agreement of the three parties with some changes."""
    return validate_table(AGREEMENT, agreement(**changes), Path("plan.toml"), "")


SHARDED = {
    "preprocessing": "declared",
    "sharding": {"shards": 2},
    "unlearning": {"method": "sharded", "compare": ()},
}
SUM = {
    "parties": {
        name: each | {"width": 3, "bottom": {"kind": "mlp", "hidden": []}}
        for name, each in agreement()["parties"].items()
    },
    "top": {"kind": "sum"},
    "preprocessing": "declared",
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({**SUM, "training": {"optimiser": "newton-cg"}}, "for the loss without weights of rows"),
        ({"privacy": {"label_dp": {"epsilon": 1.0}}}, "sample_weights and privacy.label_dp cannot"),
    ],
)
def test_weights_that_cannot_hold_are_refused(changes: dict[str, Any], named: str) -> None:
    training = {**changes.get("training", {}), "sample_weights": True}
    with pytest.raises(ConfigError, match=named):
        agreed(**{**changes, "training": training})


def test_study_of_many_models_refuses_sample_weights() -> None:
    config = Path(configs.__file__).parent / "vertical" / "digits.toml"
    with pytest.raises(PolicyError, match=r"no sample weights, but digits.toml has"):
        read_pooled_data(config, None, ("training.sample_weights=true",))


def test_training_needs_a_row_with_weight(tmp_path: Path) -> None:
    def write(folder: Path, rows: int) -> None:
        weighted(write_data, (0.0,))(folder, rows)
        header, *lines = (folder / "hub.csv").read_text().splitlines()
        # A row that no other party has, so it is not common.
        lines.append("p99999,0,0,0,a,1.0")
        (folder / "hub.csv").write_text("\n".join([header, *lines]) + "\n")

    with open_split_model(tmp_path, 240, write, training=WEIGHTED) as (split_model, _):
        count = len(split_model.rows.train)
        named = rf"the weights of all {count} training rows of hub are 0 \(data.weight\)"
        with pytest.raises(DataError, match=named):
            start_training(split_model, "original")


def test_agreement_without_weights_keeps_its_canonical_form() -> None:
    plain, weighted_rows = agreed(), agreed(training={"sample_weights": True})
    assert "sample_weights" not in plain.canonical()["training"]
    assert "weighted_rows" not in plain.architecture
    assert weighted_rows.canonical()["training"]["sample_weights"] is True
    assert weighted_rows.architecture["weighted_rows"] is True
