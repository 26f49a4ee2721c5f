"""What an unlearning method needs from the training is checked before the training."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from tests.configs.four_clients import agreed

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
    "unlearning.compare=['fedgkt']": (
        "gate = 'features' needs",
        "unlearning.fedgkt.gate='classes'",
    ),
    "unlearning.variants=[{name='g', method='fedgkt', settings={}}]": (
        "gate = 'features' needs",
        PROMPTS,
    ),
}


@pytest.mark.parametrize("change", NEEDS)
def test_missing_requirement_is_named_before_the_run(tmp_path: Path, change: str) -> None:
    message, remedy = NEEDS[change]
    with pytest.raises(ConfigError, match=message):
        agreed(tmp_path, BESIDE, change)
    assert agreed(tmp_path, BESIDE, change, remedy).unlearn
    assert not agreed(tmp_path, BESIDE, change, "unlearn=[]").unlearn, "nothing is asked for"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [
                "unlearn=[{name='a', client='client-0', trigger={share=0.5}},"
                " {name='b', client='client-1', trigger={share=0.5}}]"
            ],
            "requests a, b have the key 'trigger', but a run can measure only one trigger",
        ),
        (
            [
                "shape=[4]",
                "model={kind='mlp'}",
                "unlearn=[{name='a', client='client-0', trigger={}}]",
            ],
            "'a' has the key 'trigger', but only images can",
        ),
        (["unlearning.compare=['fine-tune', 'fine-tune']"], "'compare' names a method twice"),
        (
            ["unlearn=[{name='a', client='client-0', trigger={shift=4}}]"],
            "trigger.shift 4 is a multiple of 2, the number of classes",
        ),
        (
            ["history.every=1", "unlearning.method='federaser'", "training.rule.kind='fedadam'"],
            "federaser works only if the server adds the clients' mean update unchanged",
        ),
        (
            [
                "history.every=1",
                "unlearning.method='fedrecovery'",
                "unlearn=[{name='a', client='client-0', fraction=0.5}]",
            ],
            "fedrecovery can only remove whole clients",
        ),
        (
            [
                "history.every=1",
                "unlearning.compare=['federaser']",
                "unlearn=[{name='a', client='client-0', fraction=0.5}, "
                "{name='b', client='client-1'}]",
            ],
            "federaser cannot be used after the request 'a'",
        ),
        (
            ["personal.kind='fedper'", "unlearning.compare=['mode']"],
            "mode trains a second model",
        ),
        (
            ["shape=[1, 30, 30]", "personal.kind='mimir'", "unlearning.method='mimir'"],
            "height and width must be multiples of four",
        ),
        (
            ["unlearning.target_client='client-1'"],
            "only mimir, fedmm and fedgkt use unlearning.target_client",
        ),
        (
            ["aggregation={kind='ckks', key_holders=['client-0', 'client-1']}"],
            "fewer than two clients of aggregation.key_holders remain",
        ),
        (
            [
                "clients=6",
                "aggregation={kind='ckks', key_holders=['client-1', 'client-2']}",
                "training.share=0.8",
            ],
            "a round may have fewer than two clients of aggregation.key_holders",
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
            "the smallest cluster has only 2 clients, but aggregation.min_contributors is 3",
        ),
    ],
)
def test_unmeasurable_request_is_refused(tmp_path: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        agreed(tmp_path, BESIDE, *changes)


def test_variant_has_its_own_settings(tmp_path: Path) -> None:
    change = "unlearning.variants=[{name='g', method='fedgkt', settings={gate='classes'}}]"
    assert agreed(tmp_path, BESIDE, change).unlearning.variants


def test_validation_split_keeps_the_default_test_split(tmp_path: Path) -> None:
    assert agreed(tmp_path, BESIDE).split.test == 0.15
    assert agreed(tmp_path, BESIDE, "split.validation=0.1").split.test == 0.15


def test_key_holders_with_two_in_every_round_are_accepted(tmp_path: Path) -> None:
    key_holders = "aggregation={kind='ckks', key_holders=['client-1', 'client-2', 'client-3']}"
    changes = ["clients=6", key_holders, "training.share=0.8", "unlearning.method='fine-tune'"]
    agreement = agreed(tmp_path, BESIDE, *changes, "unlearning.compare=[]")
    assert len(agreement.aggregation.key_holders) == 3


def test_training_rounds_need_two_key_holders(tmp_path: Path) -> None:
    """Leaving clients are no key holders, so fewer remaining clients are left out of a round."""
    gone = "unlearn=[" + ", ".join(f"{{name='r{n}', client='client-{n}'}}" for n in range(6, 10))
    key_holders = ", ".join(f"'client-{n}'" for n in range(5))
    changes = [
        "clients=10",
        f"aggregation={{kind='ckks', key_holders=[{key_holders}]}}",
        gone + "]",
    ]
    changes += ["unlearning.method='fine-tune'", "unlearning.compare=[]"]
    with pytest.raises(ConfigError, match="may have fewer than two clients of"):
        agreed(tmp_path, BESIDE, *changes, "training.share=0.5")
    assert agreed(tmp_path, BESIDE, *changes, "training.share=0.7").unlearn


def test_partial_participation_in_clusters_is_refused_with_secure_aggregation(
    tmp_path: Path,
) -> None:
    changes = ["clients=8", "unlearn=[{name='a', classes=['b']}]", "training.clusters=2"]
    changes += ["aggregation={kind='masks'}", "unlearning={method='knot', compare=[]}"]
    assert agreed(tmp_path, BESIDE, *changes).unlearn
    with pytest.raises(ConfigError, match=r"training\.share = 1"):
        agreed(tmp_path, BESIDE, *changes, "training.share=0.75")
