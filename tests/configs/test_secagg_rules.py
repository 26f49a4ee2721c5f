"""Rules of secure aggregation: methods that need single clients' updates are refused."""

import re
from inspect import getsource
from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.errors import ConfigError
from parties.horizontal.registry import METHODS
from parties.horizontal.registry import SCHEMA as HORIZONTAL

SINGLE = {name for name, each in METHODS.items() if each.reads == "each update"}
LEAVING = {name for name, each in METHODS.items() if each.reads == "leaving update"}
GOOD = """
federation = "wards"
mode = "horizontal"
clients = 5
shape = [1, 8, 8]
labels = { classes = ["0", "1"] }
parties = { server = { role = "server" } }
partition = { kind = "iid" }
personal = { kind = "mimir" }
unlearn = [{ name = "leaver", client = "client-0" }]
history = { every = 1 }
"""
SECURE = ["history.every=0", "unlearning.method=fine-tune"]
CLASSES = 'unlearn=[{name = "leaver", classes = ["1"]}]'


def refusal(tmp_path: Path, *changes: str) -> str:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, *changes)
    return str(error.value)


def read(tmp_path: Path, *changes: str) -> None:
    (tmp_path / "wards.toml").write_text(GOOD)
    read_config(tmp_path / "wards.toml", HORIZONTAL, changes)


@pytest.mark.parametrize("kind", ["masks", "ckks"])
@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_method_that_needs_single_updates_is_refused(
    tmp_path: Path, kind: str, name: str
) -> None:
    error = refusal(
        tmp_path, f"aggregation.kind={kind}", *SECURE[:1], f"unlearning.method={name}", CLASSES
    )
    assert f"unlearning.method: {name!r} needs the update of each client" in error
    assert "legal methods: fine-tune, mode, ewc-sga, adaclipping-like" in error


@pytest.mark.parametrize("kind", ["masks", "ckks"])
def test_compared_method_that_needs_single_updates_is_refused(tmp_path: Path, kind: str) -> None:
    error = refusal(
        tmp_path, f"aggregation.kind={kind}", *SECURE, 'unlearning.compare=["fine-tune", "sfu"]'
    )
    assert "unlearning.compare: 'sfu' needs the update of each client" in error


@pytest.mark.parametrize("name", sorted(LEAVING))
def test_mean_of_one_leaving_client_is_refused(tmp_path: Path, name: str) -> None:
    changes = ["aggregation.kind=masks", *SECURE[:1], f"unlearning.method={name}"]
    changes += ["personal.kind=none"] if name == "mode" else []
    error = refusal(tmp_path, *changes)
    assert f"unlearning.method: {name!r} needs the update of the one leaving client" in error
    assert "legal methods: fine-tune" in error
    read(tmp_path, *changes, CLASSES)


def test_sums_with_and_without_the_leaving_client_are_refused(
    tmp_path: Path,
) -> None:
    changes = ["aggregation.kind=masks", *SECURE[:1], "unlearning.method=knot"]
    changes += ["personal.kind=none", "training.clusters=2", "clients=8"]
    error = refusal(tmp_path, *changes)
    assert (
        "'knot' reveals, together with the sums of training, the leaving client's update" in error
    )
    read(tmp_path, *changes, CLASSES)


def test_method_is_checked_if_requests_or_the_method_are_set(tmp_path: Path) -> None:
    changes = ["aggregation.kind=masks", "history.every=0"]
    assert "unlearning.method: 'fedosd'" in refusal(tmp_path, *changes)
    read(tmp_path, *changes, "unlearn=[]")
    error = refusal(tmp_path, *changes, "unlearn=[]", "unlearning.method=fedosd")
    assert "unlearning.method: 'fedosd'" in error


@pytest.mark.parametrize("kind", ["masks", "ckks"])
def test_methods_that_need_only_sums_are_accepted(tmp_path: Path, kind: str) -> None:
    read(tmp_path, f"aggregation.kind={kind}", *SECURE)
    read(tmp_path, f"unlearning.method={sorted(SINGLE)[0]}")


def test_saved_rounds_and_small_rounds_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "history.every=2")
    assert "history.every saves each client's updates" in error
    error = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "training.share=0.4")
    assert "only 2 of the 4 remaining clients take part in a round" in error
    error = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "clients=3")
    assert "only 2 of the 2 remaining clients take part in a round" in error
    read(tmp_path, "aggregation.kind=ckks", *SECURE, "clients=3", CLASSES)


def test_evaluation_of_conflicts_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, "aggregation.kind=masks", *SECURE, "evaluation.conflicts=true")
    assert "evaluation.conflicts needs a report from each client" in error


@pytest.mark.parametrize(
    ("key_holders", "message"),
    [
        ('["client-1"]', "must name at least two clients"),
        ('["client-1", "client-1"]', "must name at least two clients"),
        ('["client-1", "server"]', "each name must be a client of the agreement"),
    ],
)
def test_key_holders_must_be_at_least_two_clients(
    tmp_path: Path, key_holders: str, message: str
) -> None:
    error = refusal(
        tmp_path, "aggregation.kind=ckks", *SECURE, f"aggregation.key_holders={key_holders}"
    )
    assert message in error


def test_encryption_under_another_key_is_refused_with_the_right_key(tmp_path: Path) -> None:
    assert "for encrypted sums use aggregation.kind = 'ckks'" in refusal(
        tmp_path, "ckks.degree=8192"
    )


GATES = {
    "the method": ("unlearning.method=fedgkt", 'unlearning.fedgkt.gate="classes"'),
    "compared": (
        "unlearning.method=fine-tune",
        'unlearning.compare=["fedgkt"]',
        'unlearning.fedgkt.gate="classes"',
    ),
    "a variant": (
        "unlearning.method=fine-tune",
        'unlearning.variants=[{name="shut", method="fedgkt", settings={gate="classes"}}]',
    ),
}


@pytest.mark.parametrize("kind", ["masks", "ckks"])
@pytest.mark.parametrize("chosen", GATES)
def test_gate_on_classes_is_refused_with_secure_aggregation(
    tmp_path: Path, kind: str, chosen: str
) -> None:
    changes = ("history.every=0", CLASSES, *GATES[chosen])
    error = refusal(tmp_path, f"aggregation.kind={kind}", *changes)
    assert "gate = 'classes' needs the leaving clients to send their classes" in error
    assert f"aggregation.kind = {kind!r} the classes of clients stay secret: set gate" in error
    read(tmp_path, *changes)
    read(
        tmp_path,
        f"aggregation.kind={kind}",
        *(each.replace('classes"', 'features"') for each in changes),
    )


def test_key_holders_need_ckks(tmp_path: Path) -> None:
    both = 'aggregation.key_holders=["client-1", "client-2"]'
    error = refusal(tmp_path, "aggregation.kind=masks", *SECURE, both)
    assert "aggregation.key_holders needs aggregation.kind = 'ckks'" in error
    read(tmp_path, "aggregation.kind=ckks", *SECURE, both)


def test_methods_that_read_a_leaving_client_say_so() -> None:
    reads_leaving = re.compile(r"mean_update\(\s*run\.leaving")
    asking = {name for name, each in METHODS.items() if reads_leaving.search(getsource(each))}
    assert asking - SINGLE == LEAVING
