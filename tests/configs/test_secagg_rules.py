"""Rules of secure aggregation: methods that need single clients' updates are refused."""

import re
from inspect import getsource
from pathlib import Path
from typing import get_args

import pytest

from configs.client_unlearning import ClientMethod
from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from configs.secagg_rules import LEAVING, SINGLE
from parties.horizontal.registry import build_method

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
    read_horizontal(tmp_path / "wards.toml", changes)


@pytest.mark.parametrize("kind", ["masks", "ckks"])
@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_method_that_needs_single_updates_is_refused(
    tmp_path: Path, kind: str, name: str
) -> None:
    told = refusal(
        tmp_path, f"aggregation.kind={kind}", *SECURE[:1], f"unlearning.method={name}", CLASSES
    )
    assert f"unlearning.method: {name!r} needs single clients' updates" in told
    assert "legal with it: fine-tune, mode, ewc-sga, adaclipping-like" in told


@pytest.mark.parametrize("kind", ["masks", "ckks"])
def test_one_that_is_compared_is_refused_too(tmp_path: Path, kind: str) -> None:
    told = refusal(
        tmp_path, f"aggregation.kind={kind}", *SECURE, 'unlearning.compare=["fine-tune", "sfu"]'
    )
    assert "unlearning.compare: 'sfu' needs single clients' updates" in told


@pytest.mark.parametrize("name", sorted(LEAVING))
def test_a_mean_over_one_client_that_leaves_is_refused(tmp_path: Path, name: str) -> None:
    changes = ["aggregation.kind=masks", *SECURE[:1], f"unlearning.method={name}"]
    changes += ["personal.kind=none"] if name == "mode" else []
    told = refusal(tmp_path, *changes)
    assert f"unlearning.method: {name!r} needs the update of the one leaving client" in told
    assert "legal with it: fine-tune" in told
    read(tmp_path, *changes, CLASSES)


def test_sums_of_the_same_rounds_with_and_without_the_one_who_leaves_are_refused(
    tmp_path: Path,
) -> None:
    changes = ["aggregation.kind=masks", *SECURE[:1], "unlearning.method=knot"]
    changes += ["personal.kind=none", "training.clusters=2", "clients=8"]
    told = refusal(tmp_path, *changes)
    assert "'knot' reveals, together with the sums of training, the leaving client's update" in told
    read(tmp_path, *changes, CLASSES)


def test_the_method_that_stands_in_no_file_is_refused_when_it_is_run(tmp_path: Path) -> None:
    changes = ["aggregation.kind=masks", "history.every=0"]
    assert "unlearning.method: 'fedosd'" in refusal(tmp_path, *changes)
    read(tmp_path, *changes, "unlearn=[]")
    told = refusal(tmp_path, *changes, "unlearn=[]", "unlearning.method=fedosd")
    assert "unlearning.method: 'fedosd'" in told


@pytest.mark.parametrize("kind", ["masks", "ckks"])
def test_sums_are_enough_for_the_others(tmp_path: Path, kind: str) -> None:
    read(tmp_path, f"aggregation.kind={kind}", *SECURE)
    read(tmp_path, f"unlearning.method={sorted(SINGLE)[0]}")


def test_kept_rounds_and_rounds_of_too_few_are_refused(tmp_path: Path) -> None:
    told = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "history.every=2")
    assert "history.every saves single clients' updates" in told
    told = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "training.share=0.4")
    assert "with training.share 2 of the 4 remaining clients take part in a round" in told
    told = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, "clients=3")
    assert "with training.share 2 of the 2 remaining clients take part in a round" in told
    read(tmp_path, "aggregation.kind=ckks", *SECURE, "clients=3", CLASSES)


def test_asking_clients_one_by_one_is_refused(tmp_path: Path) -> None:
    told = refusal(tmp_path, "aggregation.kind=masks", *SECURE, "evaluation.conflicts=true")
    assert "evaluation.conflicts needs single clients' replies" in told


@pytest.mark.parametrize(
    ("keepers", "told"),
    [
        ('["client-1"]', "must name two clients or more"),
        ('["client-1", "client-1"]', "must name two clients or more"),
        ('["client-1", "server"]', "and clients only"),
    ],
)
def test_keepers_are_two_clients_or_more(tmp_path: Path, keepers: str, told: str) -> None:
    said = refusal(tmp_path, "aggregation.kind=ckks", *SECURE, f"aggregation.key_holders={keepers}")
    assert told in said


def test_encryption_that_is_looked_for_elsewhere_is_shown_its_place(tmp_path: Path) -> None:
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
def test_classes_cannot_be_told_in_a_sum_of_models(tmp_path: Path, kind: str, chosen: str) -> None:
    changes = ("history.every=0", CLASSES, *GATES[chosen])
    told = refusal(tmp_path, f"aggregation.kind={kind}", *changes)
    assert "gate = 'classes' needs the leaving clients to send their classes" in told
    assert f"aggregation.kind = {kind!r} hides; legal: gate = 'features'" in told
    read(tmp_path, *changes)
    read(
        tmp_path,
        f"aggregation.kind={kind}",
        *(each.replace('classes"', 'features"') for each in changes),
    )


def test_keepers_go_with_ckks(tmp_path: Path) -> None:
    both = 'aggregation.key_holders=["client-1", "client-2"]'
    told = refusal(tmp_path, "aggregation.kind=masks", *SECURE, both)
    assert "aggregation.key_holders goes with aggregation.kind = 'ckks'" in told
    read(tmp_path, "aggregation.kind=ckks", *SECURE, both)


def test_the_lists_are_those_of_the_methods(tmp_path: Path) -> None:
    (tmp_path / "wards.toml").write_text(GOOD)
    agreement = read_horizontal(tmp_path / "wards.toml").agreement
    names = get_args(ClientMethod)
    assert {name for name in names if build_method(agreement, name).needs_single_updates} == SINGLE
    assert not SINGLE & LEAVING
    reads_leaving = re.compile(r"mean_update\(\s*context\.leaving")
    sources = {name: getsource(type(build_method(agreement, name))) for name in names}
    asks_leaving = {name for name, source in sources.items() if reads_leaving.search(source)}
    assert asks_leaving - SINGLE == LEAVING
