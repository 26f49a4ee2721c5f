"""Every shipped config is valid, and its data has the documented rows and shapes."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from configs.config_file import read_config
from parties.data.data_frame import data_frame
from parties.data.holding import Holding, read_holding
from parties.data.party_settings import VerticalConfig
from parties.data.preprocess import declared_preprocessing, fit_preprocessing
from parties.vertical.methods.registry import SCHEMA
from tests.data_folder import needed

SHIPPED = sorted((Path(__file__).parents[2] / "configs").glob("vertical/*.toml"))
NAMES = [path.stem for path in SHIPPED]

# (rows, rows of the test file, shape of one preprocessed row) of each party
DOCUMENTED: dict[str, dict[str, tuple[int, int, tuple[int, ...]]]] = {
    "digits": {
        "office": (1707, 0, (0,)),
        "left": (1707, 0, (1, 8, 4)),
        "right": (1707, 0, (1, 8, 4)),
    },
    "digits-shards": {
        "office": (1707, 0, (0,)),
        "left": (1707, 0, (1, 8, 4)),
        "right": (1707, 0, (1, 8, 4)),
    },
    "digits-votes": {
        "office": (1707, 0, (0,)),
        "left": (1707, 0, (1, 8, 4)),
        "right": (1707, 0, (1, 8, 4)),
    },
    "digits-backdoor": {
        "office": (1707, 0, (0,)),
        "left": (1707, 0, (1, 8, 4)),
        "right": (1707, 0, (1, 8, 4)),
    },
    "income-backdoor": {
        "bank": (48_842, 16_281, (2,)),
        "employer": (48_842, 16_281, (42,)),
        "registry": (48_842, 16_281, (63,)),
    },
    "breast": {"guest": (569, 0, (10,)), "host": (541, 0, (20,))},
    "credit": {"guest": (30_000, 0, (13,)), "host": (27_000, 0, (10,))},
    "income": {
        "bank": (48_842, 16_281, (2,)),
        "employer": (48_842, 16_281, (42,)),
        "registry": (48_842, 16_281, (63,)),
    },
    "income-certified": {
        "bank": (48_842, 16_281, (2,)),
        "employer": (48_842, 16_281, (43,)),
        "registry": (48_842, 16_281, (67,)),
    },
    "fashion": {
        "shop": (70_000, 10_000, (0,)),
        "left": (70_000, 10_000, (1, 28, 14)),
        "right": (70_000, 10_000, (1, 28, 14)),
    },
    **{
        name: {
            "office": (rows, test, (0,)),
            "left": (rows, test, half),
            "right": (rows, test, half),
        }
        for name, rows, test, half in (
            ("medmnist", 107_180, 7180, (3, 28, 14)),
            ("pneumonia", 5856, 624, (1, 28, 14)),
            ("cifar10", 60_000, 10_000, (3, 32, 16)),
            ("cifar10-subset", 12_000, 2000, (3, 32, 16)),
            ("cifar100", 60_000, 10_000, (3, 32, 16)),
            ("tiny-imagenet", 110_000, 10_000, (3, 64, 32)),
        )
    },
}
COMMON = {
    "digits": 1533,
    "digits-shards": 1533,
    "digits-votes": 1533,
    "digits-backdoor": 1533,
    "income-backdoor": 48_842,
    "breast": 541,
    "credit": 27_000,
    "income": 48_842,
    "income-certified": 48_842,
    "fashion": 70_000,
    "medmnist": 107_180,
    "pneumonia": 5856,
    "cifar10": 60_000,
    "cifar10-subset": 12_000,
    "cifar100": 60_000,
    "tiny-imagenet": 110_000,
}
LABELS = {
    "breast": [212, 357],
    "credit": [23_364, 6636],
    "income": [37_155, 11_687],
    "fashion": [7000] * 10,
    "pneumonia": [1583, 4273],
    "cifar10": [6000] * 10,
    "cifar10-subset": [1200] * 10,
    "cifar100": [600] * 100,
    "tiny-imagenet": [550] * 200,
}


@cache
def read(name: str) -> tuple[VerticalConfig, dict[str, Holding]]:
    config = read_config(SHIPPED[NAMES.index(name)], SCHEMA)
    agreement = config.agreement
    settings = {name: config.settings(name).data for name in agreement.parties}
    folder = needed(*settings.values())
    classes = agreement.labels.classes
    return config, {
        name: read_holding(data, folder=folder, classes=classes, active=name == agreement.active)
        for name, data in settings.items()
    }


def test_all_expected_configs_are_shipped() -> None:
    assert sorted(DOCUMENTED) == sorted(NAMES)


@pytest.mark.parametrize("path", SHIPPED, ids=NAMES)
def test_config_reads_with_the_settings_of_every_party(path: Path) -> None:
    config = read_config(path, SCHEMA)
    assert config.agreement.federation == path.stem
    assert set(config.inline) == set(config.agreement.parties) == set(DOCUMENTED[path.stem])
    assert len(config.agreement.unlearn) >= 1


@pytest.mark.parametrize("path", SHIPPED, ids=NAMES)
def test_config_begins_with_its_purpose_and_command(path: Path) -> None:
    comment = re.match(r"(#.*\n)+", path.read_text())
    assert comment is not None
    command = f"vfl simulate configs/vertical/{path.name}"
    at_hand = path.stem.startswith("digits")  # the data comes with scikit-learn
    assert command + ("" if at_hand else " --data DIR") in comment[0]
    assert at_hand or "https://" in comment[0]


@pytest.mark.parametrize("run", NAMES)
def test_holdings_have_the_documented_rows(run: str) -> None:
    config, holdings = read(run)
    for name, (rows, test_rows, shape) in DOCUMENTED[run].items():
        holding = holdings[name]
        data, rows_to_fit = config.settings(name).data, np.flatnonzero(~holding.in_test)
        is_declared = config.agreement.preprocessing == "declared"
        fitted = (
            declared_preprocessing(holding, data)
            if is_declared
            else fit_preprocessing(holding, rows_to_fit)
        )
        assert (len(holding), holding.in_test.sum(), fitted.shape) == (rows, test_rows, shape)
        assert np.isfinite(fitted.transform(holding, np.arange(500))).all()
        assert fitted.warnings == ()
    common = set.intersection(*(set(holding.ids) for holding in holdings.values()))
    assert len(common) == COMMON[run] >= config.agreement.psi.minimum


@pytest.mark.parametrize("run", LABELS)
def test_labels_have_the_published_counts(run: str) -> None:
    config, holdings = read(run)
    labels = holdings[config.agreement.active].labels
    assert labels is not None
    assert np.bincount(labels).tolist() == LABELS[run]


def test_rows_with_one_id_come_from_one_record() -> None:
    """The bank's label and the registry's age of an ID are those of one line of adult.data."""
    config, holdings = read("income")
    lines = (needed(config.settings("bank").data) / "adult/adult.data").read_text().split("\n")
    bank, registry = holdings["bank"], holdings["registry"]
    assert bank.labels is not None
    assert registry.table is not None
    for line in (1, 2, 17, 32_561):
        identity = f"adult.data:{line}".encode()
        cells = lines[line - 1].split(", ")
        label = bank.labels[bank.ids.index(identity)]
        assert config.agreement.labels.classes[label] == cells[14]
        age = data_frame(registry.table)["age"].iloc[registry.ids.index(identity)]
        assert age == float(cells[0])


@pytest.mark.parametrize("path", SHIPPED, ids=NAMES)
def test_fedora_steps_are_at_most_the_learning_rate(path: Path) -> None:
    """Adam with a much larger learning rate than in training would ruin the model."""
    agreed = read_config(path, SCHEMA).agreement
    plan, rate = agreed.unlearning.fedora, agreed.training.learning_rate
    assert plan.primal != "optimiser" or plan.first_step(rate) <= 4 * rate
