"""The Python interface: runs, requests, and the scikit-learn estimator."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import vfl
from configs.errors import ConfigError
from parties.common.errors import DataError, Failed, PolicyError, StorageError
from parties.common.shared_randomness import derive_key, id_fractions
from parties.data.predictions import NOT_HELD, PREDICTED
from psi.ids import normalise
from unlearning.guarantee import Guarantee

SHORT: dict[str, Any] = {
    "training": {"epochs": 2, "batch": 64},
    "unlearning": {"method": "retrain-paired", "retrains": 0, "compare": []},
    "unlearn": [],
}
# Checks of scikit-learn that do not apply, each with the reason. Exactly these fail.
NOT_APPLICABLE = {
    "check_estimators_pickle": (
        "the models are in the folders of the parties, and a copy would keep forgotten rows"
    ),
    "check_sample_weight_equivalence_on_dense_data": (
        "a row that is repeated is another row: it has an ID, which decides whether it is held out"
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vfl.Run:
    """A finished run of three parties."""
    return vfl.simulate("digits", out=tmp_path_factory.mktemp("runs"), progress=False, **SHORT)


def tables() -> tuple[dict[str, pd.DataFrame], pd.Series]:
    """The columns of two parties, each with other rows in another order, and the labels."""
    features, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    features.index = labels.index = [f"patient-{number}" for number in features.index]
    bank, shop = features.iloc[:, :15], features.iloc[:, 15:].copy()
    radius = shop.iloc[:, 5]
    shop["size"] = np.where(radius > radius.mean(), "large", "small")
    parts = {"bank": bank.sample(frac=0.95, random_state=1)}
    parts["shop"] = shop.sample(frac=0.95, random_state=2)
    return parts, labels.map({0: "malignant", 1: "benign"})


def numbers() -> tuple[dict[str, pd.DataFrame], pd.Series]:
    """The columns of two parties, in different orders, and a number of each row."""
    features, progression = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    features.index = progression.index = [f"patient-{number}" for number in features.index]
    shop = features.iloc[:, 5:].sample(frac=1, random_state=2)
    return {"bank": features.iloc[:, :5], "shop": shop}, progression


# --- runs -----------------------------------------------------------------------------------------


def test_run_has_metrics_and_a_report(run: vfl.Run) -> None:
    assert run.metrics.run.common_rows == 1533
    assert run.metrics.training is not None
    assert len(run.metrics.training.steps) == 2
    assert "<html" in run.report().read_text()
    assert "1,533 common rows" in run._repr_html_()


def test_run_predicts_rows(run: vfl.Run) -> None:
    found = run.predict(["digits:17", "digits:99999"])
    assert list(found.index) == ["digits:17", "digits:99999"]
    assert list(found["status"]) == [PREDICTED, NOT_HELD]
    assert found.filter(like="p_").iloc[0].sum() == pytest.approx(1)
    assert found.filter(like="p_").iloc[1].isna().all()
    assert run.predict()["status"].value_counts()[PREDICTED] == 1533


def test_all_parties_forget_rows_and_sign(run: vfl.Run) -> None:
    before = run.predict(["digits:17", "digits:18", "digits:20"])
    assert list(before["status"]) == [PREDICTED] * 3
    done = run.unlearn(["digits:17", "digits:99999"])
    assert done.found["aligned"] == 1
    assert done.found["not_held"] == 1
    assert done.receipt is not None
    assert done.receipt.receipt.guarantee.kind is Guarantee.EXACT
    assert "left, office, right" in done._repr_html_()
    second = run.unlearn(["digits:18"], party="left")
    assert second.receipt is not None
    made = [done.receipt.path.name, second.receipt.path.name]
    assert [each.path.name for each in run.receipts] == made
    after = run.predict(["digits:17", "digits:18", "digits:20"])
    assert list(after["status"]) == [NOT_HELD, NOT_HELD, PREDICTED]
    again = run.unlearn(["digits:17"])
    assert (again.request, again.receipt, again.found["forgotten"]) == (None, None, 1)
    assert "nothing was changed" in again._repr_html_()


def test_run_is_opened_again(run: vfl.Run) -> None:
    opened = vfl.Run.open("digits", out=run.folder.parent, progress=False, **SHORT)
    assert opened.metrics == run.metrics
    assert len(opened.predict(["digits:20"])) == 1


def test_run_leaves_the_settings_of_torch(run: vfl.Run) -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    run.predict(["digits:20"])
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_run_is_not_copied(run: vfl.Run) -> None:
    with pytest.raises(TypeError, match="would keep what the parties forget"):
        copy.deepcopy(run)


@pytest.mark.parametrize(
    ("ids", "message"), [("digits:17", "the IDs are one text"), ([], "the list of IDs is empty")]
)
def test_a_text_is_no_list_of_ids(run: vfl.Run, ids: Any, message: str) -> None:
    for work in (run.predict, run.unlearn):
        with pytest.raises(DataError, match=message):
            work(ids)


def test_a_legal_ground_is_one_of_the_known_ones(run: vfl.Run) -> None:
    with pytest.raises(ConfigError, match="the ground 'art17-1x' is unknown"):
        run.unlearn(["digits:30"], ground="art17-1x")


def test_lost_accuracy_is_refused(tmp_path: Path) -> None:
    changes = SHORT | {"unlearning": SHORT["unlearning"] | {"method": "gradient-ascent"}}
    changes |= {"requests": {"guard": 0}, "training": {"epochs": 8, "batch": 64}}
    run = vfl.simulate("digits", out=tmp_path, progress=False, **changes)
    with pytest.raises(PolicyError, match=r"quarantined: .*accuracy on validation rows fell"):
        run.unlearn([f"digits:{number}" for number in range(1, 200)])


def test_run_without_an_end_has_no_report(tmp_path: Path) -> None:
    run = vfl.Run.open("digits", out=tmp_path)
    with pytest.raises(StorageError, match="the run has not ended"):
        run.report()


def test_config_is_a_dictionary_with_nested_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, labels = tables()
    parts["bank"].assign(label=labels.reindex(parts["bank"].index)).to_csv(
        tmp_path / "bank.csv", index_label="id"
    )
    parts["shop"].to_csv(tmp_path / "shop.csv", index_label="id")
    monkeypatch.chdir(tmp_path)
    data = {"kind": "csv", "id": {"columns": ["id"]}}
    config = {
        "federation": "clinic",
        "labels": {"classes": ("malignant", "benign")},
        "parties": {
            "bank": {"role": "active", "width": 4},
            "shop": {"role": "passive", "width": np.int64(4)},
        },
        "settings": {
            "bank": {
                "data": data
                | {"path": Path("bank.csv"), "label": "label", "ranges": {"mean radius": (0, 30)}}
            },
            "shop": {"data": data | {"path": "shop.csv", "categorical": ["size"]}},
        },
    }
    run = vfl.simulate(config, progress=False, **SHORT)
    assert run.folder == Path("runs/clinic")
    assert run.metrics.run.common_rows == len(parts["bank"].index.intersection(parts["shop"].index))
    with pytest.raises(ConfigError, match=r"training\.epochs is None"):
        vfl.simulate(config, training={"epochs": None})
    with pytest.raises(ConfigError, match="no key 'federation'"):
        vfl.simulate({"labels": {}})


def test_unknown_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a file nor the name of a shipped run") as caught:
        vfl.simulate("numbers", out=tmp_path)
    assert "vfl runs" in caught.value.hint


@pytest.mark.slow
def test_simulated_clients_run_but_predict_elsewhere(tmp_path: Path) -> None:
    changes = {"training": {"rounds": 1}, "unlearn": [], "clients": 4}
    run = vfl.simulate("horizontal/digits", out=tmp_path, progress=False, **changes)
    assert run.metrics.run.clients == 4
    with pytest.raises(ConfigError, match="is the agreement of a horizontal run"):
        run.predict()


@pytest.mark.slow
def test_every_party_is_a_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = vfl.simulate("digits", out=tmp_path, processes=True, **SHORT)
    assert "office: training" in capsys.readouterr().out
    assert run.predict(["digits:20"])["status"].item() == PREDICTED
    with pytest.raises(Failed, match=r"training.batch = 9999"):
        vfl.simulate("digits", out=tmp_path, processes=True, training={"batch": 9999})


# --- the estimator --------------------------------------------------------------------------------


def test_classifier_trains_on_tables_of_parties(tmp_path: Path) -> None:
    parts, labels = tables()
    model = vfl.SplitClassifier(random_state=0, folder=tmp_path).fit(parts, labels)
    record = model.run_.metrics.run
    both = parts["bank"].index.intersection(parts["shop"].index)
    assert record.common_rows == len(both)
    assert [(each.name, each.role) for each in record.parties] == [
        ("bank", "active"), ("shop", "passive"),
    ]  # fmt: skip
    assert list(model.classes_) == ["benign", "malignant"]
    assert model.n_features_in_ == 31
    rows = {"bank": parts["bank"].loc[both], "shop": parts["shop"].loc[both[::-1]]}
    assert model.score(rows, labels) > 0.95
    found = model.predict_proba(rows)
    assert found.shape == (len(both), 2)
    assert np.array_equal(model.predict(rows), model.classes_[found.argmax(axis=1)])
    done = model.unlearn(both[:5])
    assert done.receipt is not None
    assert done.found["aligned"] == 5
    assert not np.allclose(model.predict_proba(rows), found)  # of the model without the rows
    with pytest.raises(DataError, match="rows are not held by every party"):
        model.predict(parts)
    with pytest.raises(StorageError, match="has the run of an earlier fit"):
        model.fit(parts, labels)


def test_active_party_may_have_labels_alone() -> None:
    parts, labels = tables()
    model = vfl.SplitClassifier(active="clinic", epochs=2, random_state=0).fit(parts, labels)
    assert [each.name for each in model.run_.metrics.run.parties] == ["clinic", "bank", "shop"]
    folder = model.run_.folder
    assert folder.exists()
    del model
    assert not folder.exists()  # a temporary folder ends with the run
    with pytest.raises(DataError, match="the labels have no IDs"):
        vfl.SplitClassifier(active="clinic").fit(parts, labels.to_numpy())


def test_columns_of_one_table_are_divided() -> None:
    parts, labels = tables()
    table = parts["bank"].join(parts["shop"], how="inner")
    owned = {"bank": [*parts["bank"].columns], "shop": [*parts["shop"].columns]}
    model = vfl.SplitClassifier(owned, epochs=2, random_state=0).fit(table, labels[table.index])
    settings = json.loads(json.dumps(model._kinds))
    assert {name: len(columns) for name, columns in settings.items()} == {"bank": 15, "shop": 16}
    assert settings["shop"]["size"] is True
    with pytest.raises(DataError, match="no column 'colour'"):
        vfl.SplitClassifier({"bank": ["colour"]}).fit(table, labels[table.index])


class Bottom(nn.Module):
    """A party's own network."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0], width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(rows))


def test_party_has_a_network_of_its_own() -> None:
    parts, labels = tables()
    own = {"shop": Bottom}
    model = vfl.SplitClassifier(bottoms=own, epochs=2, random_state=0).fit(parts, labels)
    assert (
        model._settings("shop", "bank", weighted=False)["module"] == f"{Bottom.__module__}:Bottom"
    )
    both = parts["bank"].index.intersection(parts["shop"].index)[:3]
    assert model.predict({name: each.loc[both] for name, each in parts.items()}).shape == (3,)
    made = type("Made", (nn.Module,), {"__module__": "builtins"})
    with pytest.raises(ConfigError, match="has no source file"):
        vfl.SplitClassifier(bottoms={"shop": made}).fit(parts, labels)


def test_objects_are_networks_of_the_parties() -> None:
    parts, labels = tables()
    both = parts["bank"].index.intersection(parts["shop"].index)
    rows = {name: each.loc[both] for name, each in parts.items()}

    class Local(nn.Module):
        """A network that no other process could import."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(15))
            self.layer = nn.Linear(15, 16)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.layer(values * self.scale).relu()

    torch.manual_seed(0)
    given = {"bank": Local(), "shop": nn.Sequential(nn.Linear(17, 16), nn.Tanh())}
    before = {name: copy.deepcopy(each.state_dict()) for name, each in given.items()}
    model = vfl.SplitClassifier(bottoms=given, epochs=8, random_state=0).fit(parts, labels)
    assert model.score(rows, labels) > 0.9
    for name, each in given.items():
        assert all(torch.equal(each.state_dict()[key], old) for key, old in before[name].items())
    again = clone(model).fit(parts, labels)
    found = model.predict_proba(rows)
    assert np.array_equal(again.predict_proba(rows), found)
    del again
    with torch.no_grad():
        given["bank"].scale.fill_(2)  # after fit, the object is of no importance
    assert np.array_equal(model.predict_proba(rows), found)
    assert not np.array_equal(clone(model).fit(parts, labels).predict_proba(rows), found)
    done = model.unlearn(both[:3])
    assert done.receipt is not None
    assert done.receipt.receipt.guarantee.kind is Guarantee.EXACT
    assert not np.allclose(model.predict_proba(rows), found)


def test_objects_that_differ_by_an_attribute_alone_are_not_mixed_up() -> None:
    class Local(nn.Module):
        def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.layer, self.activation = nn.Linear(17, 16), activation

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.activation(self.layer(values))

    parts, labels = tables()
    both = parts["bank"].index.intersection(parts["shop"].index)
    rows = {name: each.loc[both] for name, each in parts.items()}
    found = []
    models = []
    for activation in (torch.tanh, torch.relu, torch.tanh):
        torch.manual_seed(0)
        own = {"shop": Local(activation)}
        model = vfl.SplitClassifier(bottoms=own, epochs=2, random_state=0).fit(parts, labels)
        models.append(model)  # the earlier ones live on
        found.append(model.predict_proba(rows))
    assert not np.allclose(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(models[0].predict_proba(rows), found[0])


def test_active_party_has_a_top_model_of_its_own() -> None:
    parts, progression = numbers()
    top = nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 1))
    own = {"shop": nn.Linear(5, 16)}
    model = vfl.SplitRegressor(bottoms=own, top=top, epochs=8, random_state=0)
    model.fit(parts, progression)
    assert model.score(parts, progression) > 0.3
    found = model.predict(parts)
    assert np.array_equal(clone(model).fit(parts, progression).predict(parts), found)
    parameters = model.run_.metrics.run.settings["top"]
    assert parameters["kind"] == "module"
    model.unlearn(parts["bank"].index[:5])
    assert not np.allclose(model.predict(parts), found)
    named = vfl.SplitRegressor(top=Bottom, epochs=2, random_state=0).fit(parts, progression)
    assert np.ptp(named.predict(parts)) < 2.1 * progression.std()  # tanh, and the unit of the label
    with pytest.raises(ConfigError, match=r"the top model must turn .* width 1, but .*\[2, 2\]"):
        vfl.SplitRegressor(top=nn.Linear(32, 2)).fit(parts, progression)


@pytest.mark.slow
def test_parties_of_an_estimator_are_processes() -> None:
    parts, progression = numbers()
    own = {"shop": Bottom}
    model = vfl.SplitRegressor(bottoms=own, epochs=2, random_state=0, processes=True)
    found = model.fit(parts, progression).predict(parts)
    one = clone(model).set_params(processes=False).fit(parts, progression)
    assert np.allclose(one.predict(parts), found, rtol=1e-5)
    assert model.run_.metrics.run.settings["parties"]["shop"]["bottom"]["kind"] == "module"
    with pytest.raises(ConfigError, match="shop is an object, whose code cannot be sent") as caught:
        clone(model).set_params(bottoms={"shop": nn.Linear(5, 16)}).fit(parts, progression)
    assert "give its class" in caught.value.hint


def weighted_numbers() -> tuple[dict[str, pd.DataFrame], pd.Series, pd.Series]:
    """Two groups of rows with labels of opposite signs; only one group has a weight."""
    parts, progression = numbers()
    first = np.arange(len(progression)) % 2 == 0
    label = progression.where(first, -progression)
    weights = pd.Series(np.where(first, 3.0, 0.0), progression.index)
    return parts, label, weights.sample(frac=1, random_state=3)


def test_weights_of_rows_are_matched_by_id_and_forgotten() -> None:
    parts, label, weights = weighted_numbers()
    model = vfl.SplitRegressor(epochs=10, random_state=0).fit(parts, label, weights)
    plan = model.run_.metrics.run.settings["training"]
    assert plan["sample_weights"] is True
    assert model.score(parts, label, weights.loc[label.index]) > 0.2
    assert model.predict(parts).mean() > 100  # without weights about 0
    done = model.unlearn(["patient-4", "patient-5"])
    assert done.receipt is not None
    assert model.predict(parts).mean() > 100


@pytest.mark.parametrize("estimator", [vfl.SplitClassifier, vfl.SplitRegressor])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: -weights, "Negative values"),
        (lambda weights: weights * 0, "at least one non-zero"),
        (lambda weights: weights.to_numpy()[1:], r"shape == \(441,\)"),
        (lambda weights: weights.mask(weights.index == "patient-7"), "NaN"),
        (lambda weights: weights.astype(str) + "x", "could not convert"),
    ],
)
def test_weights_of_rows_that_cannot_be_used_are_refused(
    estimator: Any, change: Any, message: str
) -> None:
    parts, label = numbers()
    labels = (label > label.median()).astype(int)
    weights = change(pd.Series(1.0, label.index))
    with pytest.raises(ValueError, match=message):
        estimator().fit(parts, labels, sample_weight=weights)


def test_labels_and_weights_of_one_table_are_in_the_order_of_its_rows() -> None:
    """Also those of a series whose index names other rows, as in scikit-learn."""
    parts, label, weights = weighted_numbers()
    table = parts["bank"].join(parts["shop"], how="inner")
    y, w = label[table.index], weights[table.index]
    first = vfl.SplitRegressor(epochs=2, random_state=0).fit(table, y.to_numpy(), w.to_numpy())
    numbered = [each.set_axis(np.arange(len(table))[::-1]) for each in (y, w)]
    plain = table.reset_index(drop=True)
    expected = vfl.SplitRegressor(epochs=2, random_state=0).fit(plain, y.to_numpy(), w.to_numpy())
    found = vfl.SplitRegressor(epochs=2, random_state=0).fit(plain, *numbered)
    assert np.array_equal(found.predict(plain), expected.predict(plain))
    array = vfl.SplitRegressor(epochs=2, random_state=0).fit(plain.to_numpy(), *numbered)
    assert np.allclose(array.predict(plain.to_numpy()), found.predict(plain))
    assert first.predict(table).shape == (len(table),)


def test_labels_and_weights_of_tables_of_parties_are_matched_by_id() -> None:
    parts, label, weights = weighted_numbers()
    model = vfl.SplitRegressor(epochs=2, random_state=0).fit(parts, label, weights)
    turned = model.score(parts, label[::-1], weights[::-1])
    assert turned == pytest.approx(model.score(parts, label, weights))
    renamed = label.rename({parts["bank"].index[0]: "other"})
    with pytest.raises(DataError, match="a series has no value for 1 of "):
        model.fit(parts, renamed)


def test_what_cannot_be_predicted_is_named_without_its_values() -> None:
    parts, labels = tables()
    table = parts["bank"].join(parts["shop"].drop(columns="size"), how="inner")
    model = vfl.SplitClassifier(epochs=1, random_state=0).fit(table, labels[table.index])
    column = table.columns[0]
    secret = table.astype({column: object}).assign(**{column: "secret"})
    with pytest.raises(DataError, match="has a text, but it had only numbers in fit") as refused:
        model.predict(secret)
    assert "secret" not in str(refused.value)
    with pytest.raises(DataError, match="the features have no row"):
        model.predict(table.iloc[:0])
    with pytest.raises(DataError, match="the features of first, second are not given"):
        model.predict({"bank": table})


@pytest.mark.slow
def test_weights_of_rows_reach_the_process_of_the_active_party() -> None:
    parts, label, weights = weighted_numbers()
    one = vfl.SplitRegressor(epochs=2, random_state=0).fit(parts, label, weights)
    model = clone(one).set_params(processes=True).fit(parts, label, weights)
    assert np.allclose(one.predict(parts), model.predict(parts), rtol=1e-5)
    plain = clone(one).fit(parts, label)
    assert not np.allclose(one.predict(parts), plain.predict(parts), rtol=0.1)


def nested_network() -> type[nn.Module]:
    """A class that no other process can import."""

    class Inner(nn.Linear):
        pass

    return Inner


class State(nn.Linear):
    """A layer whose state is not only tensors."""

    def get_extra_state(self) -> str:
        return "rows"


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"shop": nn.Linear(17, 4)}, r"shop must turn .* width 16, but .* shape \[2, 4\]"),
        ({"bank": nn.Linear(9, 16)}, r"bank failed on .* rows of shape \[15\] .*cannot be multi"),
        ({"bank": nn.GRU(15, 16)}, r"bank must turn .*, but its output for two rows is tuple"),
        ({"shop": nn.Linear}, r"shop: torch.* failed with the arguments \(17,\) and 16"),
        ({"shop": nn.BatchNorm1d(17)}, "shop contains the layer BatchNorm1d"),
        ({"shop": nn.Identity()}, "the bottom model of shop has no parameters"),
        ({"shop": nn.LazyLinear(16)}, "shop has the parameter 'weight' without a shape"),
        ({"shop": State(17, 16)}, "state of the bottom model of shop has the entry '_extra_state'"),
        (
            {"shop": nested_network()},
            "nested_network.<locals>.Inner is inside a function or another",
        ),
        ({"shop": "mlp"}, "the bottom model of shop is no torch.nn.Module, but of the type str"),
        ({"post": nn.Linear(17, 16)}, "a network for 'post', which is no party with columns"),
    ],
)
def test_unsuitable_network_is_refused(own: Any, message: str) -> None:
    parts, labels = tables()
    with pytest.raises(ConfigError, match=message):
        vfl.SplitClassifier(bottoms=own, epochs=1).fit(parts, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.set_index(table.index[[0] * len(table)]), "repeated IDs"),
        (lambda table: table.assign(day=pd.Timestamp("2026-01-01")), "column 'day' of shop has"),
        (lambda table: table.to_numpy(), "the features of shop are no data frame"),
    ],
)
def test_unsuitable_table_is_refused(change: Any, message: str) -> None:
    parts, labels = tables()
    with pytest.raises(DataError, match=message):
        vfl.SplitClassifier().fit(parts | {"shop": change(parts["shop"])}, labels)


def test_too_few_rows_are_refused() -> None:
    parts, _ = tables()
    few = {name: each.loc[["patient-1", "patient-20"]] for name, each in parts.items()}
    with pytest.raises(DataError, match="common rows are too few for a model"):
        vfl.SplitClassifier().fit(few, pd.Series(["a", "b"], few["bank"].index))


def test_best_epoch_is_kept() -> None:
    parts, labels = tables()
    model = vfl.SplitClassifier(epochs=12, learning_rate=0.05, random_state=0).fit(parts, labels)
    losses = [epoch.validation_loss for epoch in model.run_.metrics.training.steps]
    assert len(losses) == 12
    assert losses[-1] > 1.05 * min(losses)
    both = parts["bank"].index.intersection(parts["shop"].index)
    key = derive_key(model.run_._config.agreement.seed, "split")
    draw = id_fractions(key, [normalise(each) for each in both])
    ids = both[(draw >= 0.1) & (draw < 0.2)]  # the validation rows
    found = model.predict_proba({name: each.loc[ids] for name, each in parts.items()})
    truth = np.searchsorted(model.classes_, labels[ids])
    assert -np.log(found[np.arange(len(ids)), truth]).mean() == pytest.approx(min(losses), 1e-4)


# --- the estimator of numbers ---------------------------------------------------------------------


def test_regressor_trains_on_tables_of_parties() -> None:
    parts, progression = numbers()
    test = parts["bank"].index[::4]
    train = {name: each.drop(test) for name, each in parts.items()}
    held_out = {name: each.loc[test] for name, each in parts.items()}
    model = vfl.SplitRegressor(random_state=0).fit(train, progression)
    found = model.predict(held_out)
    assert (found.shape, found.dtype) == ((len(test),), np.float64)
    assert model.score(held_out, progression) == pytest.approx(r2_score(progression[test], found))
    one = {name: parts["bank"].join(parts["shop"]).loc[ids] for name, ids in (
        ("train", train["bank"].index), ("test", test),
    )}  # fmt: skip
    linear = LinearRegression().fit(one["train"], progression[train["bank"].index])
    assert r2_score(progression[test], found) > linear.score(one["test"], progression[test]) - 0.05
    done = model.unlearn(train["shop"].index[:5])
    assert done.receipt is not None
    assert done.receipt.receipt.guarantee.kind is Guarantee.EXACT
    assert not np.allclose(model.predict(held_out), found)  # of the model without the rows
    with pytest.raises(DataError, match="rows are not held by every party"):
        model.predict({"bank": parts["bank"], "shop": held_out["shop"]})


def test_loss_of_a_regression_is_the_chosen_one() -> None:
    parts, progression = numbers()
    skewed = progression.where(progression < 250, 10 * progression)
    found = {
        loss: vfl.SplitRegressor(loss=loss, epochs=20, random_state=0)
        .fit(parts, skewed)
        .predict(parts)
        for loss in ("squared", "absolute")
    }
    truth = skewed[parts["bank"].index]
    assert mean_squared_error(truth, found["squared"]) < mean_squared_error(
        truth, found["absolute"]
    )
    assert mean_absolute_error(truth, found["absolute"]) < mean_absolute_error(
        truth, found["squared"]
    )
    with pytest.raises(ConfigError, match=r"labels\.loss"):
        vfl.SplitRegressor(loss="huber").fit(parts, progression)


def test_regressor_is_an_estimator_of_scikit_learn() -> None:
    parts, progression = numbers()
    table = parts["bank"].join(parts["shop"])
    owned = {name: [*each.columns] for name, each in parts.items()}
    model = vfl.SplitRegressor(owned, loss="absolute", epochs=2, random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert vfl.SplitClassifier().get_params().keys() == model.get_params().keys() - {"loss"}
    search = GridSearchCV(model, {"width": [2, 4], "loss": ["squared"]}, cv=2)
    search.fit(table, progression)
    assert search.best_params_.keys() == {"width", "loss"}
    assert search.predict(table).shape == (len(table),)
    assert [each.role for each in search.best_estimator_.run_.metrics.run.parties] == [
        "active", "passive",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda y: y.astype(str), ValueError, "labels of the type str, .* use SplitClassifier"),
        (lambda y: y.mask(y.index == "patient-7"), ValueError, "1 of 442 rows.*number 7 of y"),
        (lambda y: y.replace(y["patient-9"], np.inf), ValueError, "the first .* number 9 of y"),
        (pd.to_datetime, ValueError, "labels of the type datetime64"),
        (lambda y: y.to_numpy()[1:], DataError, "there are 441 labels for 442 rows"),
    ],
)
def test_labels_that_are_no_numbers_are_refused(
    change: Any, error: type[Exception], message: str
) -> None:
    parts, progression = numbers()
    with pytest.raises(error, match=message):
        vfl.SplitRegressor().fit(parts, change(progression))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("estimator", [vfl.SplitClassifier, vfl.SplitRegressor])
def test_estimator_keeps_the_rules_of_scikit_learn(estimator: Any) -> None:
    # A number in float32 may be rounded otherwise if its row is predicted with other rows.
    model = estimator(random_state=0, changes={"dtype": "float64"})
    results = check_estimator(model, on_fail=None, on_skip=None)
    failed = {each["check_name"] for each in results if each["status"] == "failed"}
    assert failed == NOT_APPLICABLE.keys()
    assert sum(each["status"] == "passed" for each in results) > 44
