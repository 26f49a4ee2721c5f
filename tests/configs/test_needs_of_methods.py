"""What an unlearning method needs from the training is checked before the training."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from tests.configs.wards import agreed

BESIDE = """
model = { kind = "lenet5" }

[[unlearn]]
name = "gone"
client = "client-0"
"""
PROMPTS = "personal.kind='mimir'"
NEEDS = {
    "unlearning.method='federaser'": ("history.every = 1", "history.every=5"),
    "unlearning.compare=['fedrecovery']": ("history.every = 1", "history.every=1"),
    "unlearning.method='mimir'": ("networks with prompts", PROMPTS),
    "unlearning.compare=['fedgkt']": ("gate compares features", "unlearning.fedgkt.gate='classes'"),
    "unlearning.variants=[{name='g', method='fedgkt', settings={}}]": (
        "compares features",
        PROMPTS,
    ),
}


@pytest.mark.parametrize("change", NEEDS)
def test_what_is_missing_is_named_before_the_run(tmp_path: Path, change: str) -> None:
    told, remedy = NEEDS[change]
    with pytest.raises(ConfigError, match=told):
        agreed(tmp_path, BESIDE, change)
    assert agreed(tmp_path, BESIDE, change, remedy).unlearn
    assert not agreed(tmp_path, BESIDE, change, "unlearn=[]").unlearn, "nothing is asked for"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            [
                "unlearn=[{name='a', client='client-0', trigger={share=0.5}},"
                " {name='b', client='client-1', trigger={share=0.5}}]"
            ],
            "requests a, b plant triggers, and a run measures one trigger only",
        ),
        (
            [
                "shape=[4]",
                "model={kind='mlp'}",
                "unlearn=[{name='a', client='client-0', trigger={}}]",
            ],
            "'a' plants a trigger, which needs images",
        ),
        (["unlearning.compare=['fine-tune', 'fine-tune']"], "compare names a method twice"),
        (
            ["unlearn=[{name='a', client='client-0', trigger={shift=4}}]"],
            "trigger.shift 4 is a multiple of the 2 classes",
        ),
        (
            ["history.every=1", "unlearning.method='federaser'", "training.rule.kind='fedadam'"],
            "federaser needs rounds that apply the clients' mean update as it is",
        ),
        (
            [
                "history.every=1",
                "unlearning.method='fedrecovery'",
                "unlearn=[{name='a', client='client-0', fraction=0.5}]",
            ],
            "fedrecovery removes whole clients",
        ),
        (
            ["personal.kind='fedper'", "unlearning.compare=['mode']"],
            "mode trains one model with the help of another model",
        ),
        (
            ["shape=[1, 30, 30]", "personal.kind='mimir'", "unlearning.method='mimir'"],
            "mimir generates images whose sides are multiples of four",
        ),
        (
            ["unlearning.target_client='client-1'"],
            "unlearning.target_client is for mimir, fedmm and fedgkt",
        ),
        (
            ["aggregation={kind='ckks', key_holders=['client-0', 'client-1']}"],
            "at least two of aggregation.key_holders must remain",
        ),
        (
            [
                "clients=6",
                "aggregation={kind='ckks', key_holders=['client-1', 'client-2']}",
                "training.share=0.8",
            ],
            "a round with drawn clients may have fewer than two of aggregation.key_holders",
        ),
        (
            [
                "clients=6",
                "unlearn=[{name='a', classes=['b']}]",
                "training.clusters=3",
                "aggregation={kind='masks'}",
                "unlearning.method='knot'",
                "unlearning.compare=[]",
            ],
            "a round of a cluster has 2 clients, and aggregation.min_contributors is 3",
        ),
    ],
)
def test_what_cannot_be_measured_or_told_apart_is_refused(
    tmp_path: Path, changes: list[str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        agreed(tmp_path, BESIDE, *changes)


def test_a_variant_brings_its_own_settings(tmp_path: Path) -> None:
    change = "unlearning.variants=[{name='g', method='fedgkt', settings={gate='classes'}}]"
    assert agreed(tmp_path, BESIDE, change).unlearning.variants


def test_other_splits_leave_the_usual_rest(tmp_path: Path) -> None:
    assert agreed(tmp_path, BESIDE).split.test == 0.15
    assert agreed(tmp_path, BESIDE, "split.validation=0.1").split.test == 0.15


def test_keepers_of_whom_two_are_in_every_round_may_be_drawn(tmp_path: Path) -> None:
    keepers = "aggregation={kind='ckks', key_holders=['client-1', 'client-2', 'client-3']}"
    changes = ["clients=6", keepers, "training.share=0.8", "unlearning.method='fine-tune'"]
    found = agreed(tmp_path, BESIDE, *changes, "unlearning.compare=[]")
    assert len(found.aggregation.key_holders) == 3


def test_of_keepers_two_are_in_every_round_of_the_training_too(tmp_path: Path) -> None:
    """Leaving clients are no key holders, so fewer remaining clients are left out of a round."""
    gone = "unlearn=[" + ", ".join(f"{{name='r{n}', client='client-{n}'}}" for n in range(6, 10))
    keepers = ", ".join(f"'client-{n}'" for n in range(5))
    changes = ["clients=10", f"aggregation={{kind='ckks', key_holders=[{keepers}]}}", gone + "]"]
    changes += ["unlearning.method='fine-tune'", "unlearning.compare=[]"]
    with pytest.raises(ConfigError, match="may have fewer than two of"):
        agreed(tmp_path, BESIDE, *changes, "training.share=0.5")
    assert agreed(tmp_path, BESIDE, *changes, "training.share=0.7").unlearn


def test_drawn_clusters_are_no_sums(tmp_path: Path) -> None:
    changes = ["clients=8", "unlearn=[{name='a', classes=['b']}]", "training.clusters=2"]
    changes += ["aggregation={kind='masks'}", "unlearning={method='knot', compare=[]}"]
    assert agreed(tmp_path, BESIDE, *changes).unlearn
    with pytest.raises(ConfigError, match=r"training\.share = 1"):
        agreed(tmp_path, BESIDE, *changes, "training.share=0.75")
