"""Lists of experiments: the shipped lists, the order of overrides, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.experiments import inline_toml, read_experiments
from configs.toml_file import toml_value

SHIPPED = Path(__file__).parents[2] / "configs" / "bench" / "fedora.toml"
GOOD = """
[always]
any = ["a=1"]
digits = ["a=2"]

[variants.plain]
any = ["b=1"]

[variants.more]
like = ["plain"]
any = ["b=2"]
digits = ["b=3"]

[[experiment]]
name = "one"
config = "../vertical/digits.toml"
tables = ["IV"]
variants = ["plain", "more"]
changes = ["c=1"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "list.toml"
    path.write_text(text)
    return path


def test_shipped_list_reads_and_feeds_every_table() -> None:
    listed = read_experiments(SHIPPED)
    fed = {table for each in listed.experiment for table in each.tables}
    assert fed == {"III", "IV", "V", "VI", "VII", "VIII", "IX", "4", "5", "6", "7", "8"}


def test_override_order_is_all_runs_variant_experiment(tmp_path: Path) -> None:
    listed = read_experiments(written(tmp_path, GOOD))
    only = listed.experiment[0]
    assert listed.changes(only, "plain") == ("a=2", "b=1", "c=1")  # a=1, but then a=2
    assert listed.changes(only, "more") == ("a=2", "b=3", "c=1")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('variants = ["plain"', 'variants = ["plan"', "unknown variant 'plan'"),
        (
            'like = ["plain"]',
            'like = ["more"]',
            "names 'more', but no variant in",
        ),
        (
            "[[experiment]]\n",
            GOOD[GOOD.index("[[exp") :] + "[[experiment]]\n",
            "have the same name",
        ),
        (
            'changes = ["c=1"]',
            'backdoor = { party = "left", target = "0" }',
            "the key 'backdoor' needs rows to poison: set the key 'request'",
        ),
    ],
)
def test_invalid_list_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_experiments(written(tmp_path, GOOD.replace(old, new, 1)))


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "r", "classes": ["<=50K", ">50K"], "fraction": 0.25}],
        {"a": {"b": [1, 2.5, True]}, "c": "é"},
        [],
    ],
)
def test_inline_values_are_the_same_in_toml(value: Any) -> None:
    assert toml_value("key", inline_toml(value)) == json.loads(json.dumps(value))
