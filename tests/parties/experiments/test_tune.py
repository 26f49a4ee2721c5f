"""The search over settings of the training."""

import json
from importlib.util import find_spec
from math import inf
from pathlib import Path

import pytest
from typer.testing import CliRunner

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from parties.cli.main import app
from parties.cli.modes import read_runnable
from parties.experiments.tune import combinations
from parties.report.record import read_record

PAIR = """
federation = "pair"
labels = { classes = ["0", "1"] }
training = { batch = 16, epochs = 2 }
psi = { minimum = 10 }
parties.bank = { role = "active", width = 2, bottom = { kind = "mlp", hidden = [] } }
parties.shop = { role = "passive", width = 2, bottom = { kind = "mlp", hidden = [] } }

[settings.bank.data]
kind = "csv"
path = "bank.csv"
id = { columns = ["id"] }
delimiter = ";"
label = "label"
ranges = { y = [0, 7] }

[settings.shop.data]
kind = "csv"
path = "shop.csv"
id = { columns = ["id"] }
delimiter = ";"
ranges = { x = [0, 5] }
"""
WORDS = ["tune", "digits", "--set", "training.epochs=2", "--format", "json"]


@pytest.fixture
def agreement() -> VerticalAgreement:
    found = read_runnable(Path("configs/vertical/digits.toml"), []).agreement
    assert isinstance(found, VerticalAgreement)
    return found


def tune(out: Path, *words: str) -> list[dict]:  # type: ignore[type-arg]
    found = CliRunner().invoke(app, [*WORDS, "--out", str(out), *words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.output.splitlines()]


def test_the_lowest_validation_loss_wins_and_finished_trainings_are_read(tmp_path: Path) -> None:
    rates = "training.learning_rate=[0.0001, 0.003]"
    events = tune(tmp_path, "--try", rates)
    trials = [each for each in events if each["event"] == "trial"]
    assert [each["changes"] for each in trials] == [
        ["training.learning_rate=0.003"],
        ["training.learning_rate=0.0001"],
    ]
    (best,) = [each for each in events if each["event"] == "best"]
    assert best["changes"] == ["training.learning_rate=0.003"]
    losses, rows = [], set()
    for path in tmp_path.glob("*/digits/metrics.json"):
        record = read_record(json.loads(path.read_bytes()))
        assert record.training is not None
        assert record.run.rows is not None
        losses.append(record.training.steps[-1].validation_loss)
        rows.add(tuple(record.run.rows.values()))
        assert not record.requests
    assert sorted(each["value"] for each in trials) == sorted(losses)  # type: ignore[type-var]
    assert len(rows) == 1
    again = tune(tmp_path, "--try", rates, "--try", "top.hidden=[[32]]")
    assert sum(each["event"] == "progress" for each in again)  # another network: trained
    again = tune(tmp_path, "--try", rates)
    assert not [each for each in again if each["event"] == "progress"]
    assert [each for each in again if each["event"] == "trial"] == trials


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'vfl[ray]'")
def test_trainings_on_ray_equal_those_of_this_process(tmp_path: Path) -> None:
    """One of three trainings diverges; the config is a file with a path of data beside it."""
    rows = "".join(f"{at};{at % 7};{at % 2}\n" for at in range(200))
    (tmp_path / "shop.csv").write_text("id;x\n" + "".join(f"{at};{at % 5}\n" for at in range(200)))
    (tmp_path / "bank.csv").write_text(f"id;y;label\n{rows}")
    (tmp_path / "pair.toml").write_text(PAIR)
    words = ["tune", str(tmp_path / "pair.toml"), "--format", "json"]
    words += [
        "--try",
        "training.learning_rate=[0.001, 0.01, 1e30]",
        "--try",
        "training.batch=[16, 500]",
    ]
    found = {}
    for name, more in {"here": [], "ray": ["--ray", "local"]}.items():
        done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
        events = [json.loads(line) for line in done.output.splitlines()]
        found[name] = [each for each in events if each["event"] in ("trial", "best")]
    assert found["ray"] == found["here"]
    assert [each.get("value") for each in found["ray"]].count(inf) == 4  # 1e30, or 500 of 200 rows
    assert len(list(tmp_path.glob("ray/*/pair/metrics.json"))) == 2


def test_by_default_three_rates_are_tried(agreement: VerticalAgreement) -> None:
    rate = agreement.training.learning_rate
    found = [float(change.partition("=")[2]) for (change,) in combinations(agreement, [])]
    assert found == pytest.approx([rate / 3, rate, 3 * rate], rel=0.01)


def test_all_combinations_are_tried(agreement: VerticalAgreement) -> None:
    tried = ["training.batch=[32, 64]", 'parties.left.bottom=[{kind = "mlp", hidden = [8]}]']
    assert combinations(agreement, tried) == [
        ("training.batch=32", 'parties.left.bottom={kind = "mlp", hidden = [8]}'),
        ("training.batch=64", 'parties.left.bottom={kind = "mlp", hidden = [8]}'),
    ]


@pytest.mark.parametrize(
    ("tried", "problem"),
    [
        (["seed=[1, 2]"], "seed is no setting of the training"),
        (["split.validation=[0.1]"], "split.validation is no setting of the training"),
        (["training.batch=32"], "the value is no list"),
        (["training.batch=[]"], "the value is no list"),
        (["training.batch=[32"], "training.batch"),
        (["training.batch=[32]", "training.batch=[64]"], "names training.batch twice"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    agreement: VerticalAgreement, tried: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        combinations(agreement, tried)


@pytest.mark.parametrize(
    ("tried", "key"),
    [
        ('training.monitor=["loss", "auc"]', "training.monitor"),
        ('training.class_weights=["balanced"]', "training.class_weights"),
        ("training.class_weights=[{0 = 2.0}]", "training.class_weights"),
        ("training.class_weights.0=[1.0, 2.0]", "training.class_weights"),
        ("training.sample_weights=[true, false]", "training.sample_weights"),
        (" training.sample_weights =[true]", "training.sample_weights"),
    ],
)
def test_what_changes_the_measure_is_not_tried(
    agreement: VerticalAgreement, tried: str, key: str
) -> None:
    with pytest.raises(ConfigError, match=f"{key} changes what is measured") as caught:
        combinations(agreement, ["training.batch=[32]", tried])
    assert "keep one value in the agreement" in caught.value.hint


def test_other_starts_are_not_tried_if_the_auc_is_watched() -> None:
    """A local start and Newton steps measure the loss only."""
    config, tried = Path("configs/vertical/digits.toml"), ['training.start=["random", "local"]']
    changes = ["training.monitor=auc", "training.patience=3"]
    plain, watched = (read_runnable(config, each).agreement for each in ([], changes))
    assert isinstance(plain, VerticalAgreement)
    assert isinstance(watched, VerticalAgreement)
    assert len(combinations(plain, tried)) == 2
    with pytest.raises(ConfigError, match=r"training\.start changes whether the AUC is measured"):
        combinations(watched, tried)


def test_a_local_start_is_ranked_by_the_loss_whatever_is_watched(tmp_path: Path) -> None:
    watched = ["--set", "training.monitor=auc", "--set", "training.patience=3"]
    local = ["--set", "training.start=local", "--set", "training.local={fit_epochs=1}"]
    batches = ["--try", "training.batch=[512]"]
    heads = [
        [each["figure"] for each in tune(tmp_path, *changes, *batches) if each["event"] == "head"]
        for changes in (watched, [*watched, *local])
    ]
    assert heads == [["1 - AUC"], ["loss"]]


def test_a_training_with_shards_is_refused_before_it_begins(tmp_path: Path) -> None:
    words = ["tune", "digits-shards", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, [*words, "--set", "sharding.shards=4"])
    shown = " ".join(found.output.split())
    assert found.exit_code == 3
    assert "sharding.shards = 4, and the models of shards are not validated" in shown
    assert "search without shards" in shown
    assert not [*tmp_path.iterdir()]


def test_other_modes_and_trainings_without_validation_rows_are_refused(tmp_path: Path) -> None:
    words = ["tune", "configs/horizontal/digits.toml", "--out", str(tmp_path)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 3
    assert "vfl tune searches the settings of the vertical mode" in " ".join(found.output.split())
    words = [*WORDS, "--out", str(tmp_path), "--set", "split.validation=0.0"]
    found = CliRunner().invoke(app, [*words, "--set", "training.patience=3"])
    assert found.exit_code == 3


def test_a_training_that_diverges_is_ranked_last(tmp_path: Path) -> None:
    events = tune(tmp_path, "--try", "training.learning_rate=[1e30, 0.003]")
    trials = [each for each in events if each["event"] == "trial"]
    assert [each["changes"] for each in trials] == [
        ["training.learning_rate=0.003"],
        ["training.learning_rate=1e30"],
    ]
    assert any("not finite" in each.get("text", "") for each in events)


def test_a_wrong_value_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    words = [*WORDS, "--out", str(tmp_path), "--try", "training.learning_rate=[0.01, -1]"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 3
    assert not [*tmp_path.iterdir()]


def test_other_party_settings_are_trained_anew(tmp_path: Path) -> None:
    one = ("--try", "training.learning_rate=[0.003]")
    tune(tmp_path, *one)
    again = tune(tmp_path, *one, "--set", "settings.left.threads=2")
    assert sum(each["event"] == "progress" for each in again)
