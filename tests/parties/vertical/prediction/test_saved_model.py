"""Saved models: each file that is missing, damaged or foreign is refused by name."""

import json
import pickle
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from prediction_parties import config, party_of, predict_rows, trained_parties
from safetensors.torch import load, save
from three_parties import LIMITS, agreement
from whole_run import run

from configs.errors import ConfigError
from parties.common.errors import EXIT_CODES, IntegrityError, StorageError, exit_code
from parties.session.saved_model import read_saved_model
from protocol.errors import RemoteProtocolError

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_parties(tmp_path_factory.mktemp("once"))


@pytest.fixture
def trained(trained_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_folder, tmp_path / "trained")


def model_file(folder: Path, name: str = "left") -> Path:
    return folder / "runs" / "trio" / name


def flip_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def truncate_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def write_with_digest(file: Path, content: bytes) -> None:
    """Replace a file, and its digest in the manifest."""
    file.write_bytes(content)
    manifest = file.with_name("manifest.json")
    content_of = json.loads(manifest.read_text())
    content_of["sha256"][file.name] = sha256(content).hexdigest()
    manifest.write_text(json.dumps(content_of))


def change_parameters(file: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    write_with_digest(file, save(change(load(file.read_bytes()))))


@pytest.mark.parametrize(
    "file", ["model.safetensors", "rows.safetensors", "preprocessing.json", "traffic.json"]
)
@pytest.mark.parametrize("damage", [flip_bit, truncate_file, Path.unlink])
def test_a_damaged_file_is_refused_by_name(trained: Path, file: str, damage: Damage) -> None:
    damage(model_file(trained) / file)
    with pytest.raises(IntegrityError, match=file) as error:
        party_of(trained, "left")
    assert exit_code(error.value) == 9


def test_exit_code_nine_means_damaged_files_only() -> None:
    assert [kind for kind, code in EXIT_CODES.items() if code == 9] == [IntegrityError]


def test_a_pickle_is_refused_even_with_its_digest(trained: Path) -> None:
    write_with_digest(model_file(trained) / "model.safetensors", pickle.dumps({"0.weight": 1}))
    with pytest.raises(IntegrityError, match=r"model\.safetensors is not a safetensors file"):
        party_of(trained, "left")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: dict(list(parts.items())[1:]), "does not fit the network"),
        (lambda parts: parts | {"more": torch.zeros(1)}, "does not fit the network"),
        (
            lambda parts: {name: part.float() for name, part in parts.items()},
            "does not fit the network",
        ),
        (
            lambda parts: {name: part[:1] for name, part in parts.items()},
            "does not fit the network",
        ),
        (lambda parts: {name: part / 0 for name, part in parts.items()}, "are not finite"),
    ],
    ids=["one-less", "one-more", "other-type", "other-shape", "infinite"],
)
def test_unexpected_parameters_are_refused(trained: Path, change: Any, message: str) -> None:
    change_parameters(model_file(trained) / "model.safetensors", change)
    with pytest.raises(IntegrityError, match=message):
        party_of(trained, "left")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
def test_invalid_manifest_is_refused(trained: Path, text: bytes) -> None:
    (model_file(trained) / "manifest.json").write_bytes(text)
    with pytest.raises(IntegrityError, match=r"manifest\.json is not (a )?JSON"):
        party_of(trained, "left")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("run", None, "the run ID in .* is missing or invalid"),
        ("run", "xy", "the run ID in .* is missing or invalid"),
        ("run", "ab", "the run ID in .* is missing or invalid"),
        ("sha256", None, "the list of files in .* is missing or invalid"),
        (
            "sha256",
            {"../left/model.safetensors": "0"},
            "the list of files in .* is missing or invalid",
        ),
        ("sha256", {"model.safetensors": 0}, "the list of files in .* is missing or invalid"),
        ("party", "right", "contains the model of another party; expected the model of left"),
    ],
)
def test_a_manifest_with_a_wrong_field_is_refused(
    trained: Path, key: str, value: Any, message: str
) -> None:
    path = model_file(trained) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(IntegrityError, match=message):
        party_of(trained, "left")


def test_local_model_of_another_party_is_refused(trained: Path) -> None:
    shutil.rmtree(model_file(trained))
    shutil.copytree(model_file(trained, "right"), model_file(trained))
    with pytest.raises(
        IntegrityError, match="contains the model of another party; expected the model of left"
    ):
        party_of(trained, "left")


def test_missing_local_model_is_refused_with_a_hint(trained: Path) -> None:
    shutil.rmtree(model_file(trained))
    with pytest.raises(StorageError, match="no trained model in") as error:
        party_of(trained, "left")
    assert "train first" in error.value.hint
    assert not model_file(trained).exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"labels": {"classes": ["c", "b", "a"]}}, "labels.classes"),
        ({"dtype": "float32"}, "dtype"),
        ({"top": {"kind": "mlp", "hidden": [7]}}, "top.hidden"),
    ],
)
def test_a_model_of_another_agreement_is_refused_by_field(
    trained_folder: Path, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=f"another agreement, which differs in: {field}"):
        party_of(trained_folder, "left", agreement(**changes))


def test_pins_may_change_after_training(trained_folder: Path) -> None:
    plan = agreement()
    plan["parties"]["left"]["pins"] = ["sha256:" + "0" * 64]
    agreed = config(trained_folder, plan).agreement
    assert read_saved_model(model_file(trained_folder), "left", agreed).run


def test_local_models_of_different_runs_are_refused_and_both_named(
    trained: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    again.mkdir()
    run(again)
    runs = [
        read_saved_model(
            model_file(each, "right"), "right", config(each, agreement()).agreement
        ).run
        for each in (trained, again)
    ]
    shutil.rmtree(model_file(trained, "right"))
    shutil.copytree(model_file(again, "right"), model_file(trained, "right"))
    with pytest.raises(RemoteProtocolError) as error:
        # The passive parties dial the hub again for as long as they may join.
        predict_rows(trained, ["p1", "p2", "p3"], agreement(limits=LIMITS | {"join_seconds": 6.0}))
    message = str(error.value)
    assert "the local models belong to different runs: hub uses the model of run" in message
    assert all(each.hex() in message for each in runs)
