"""Twenty secrets in places where failures happen: no output repeats one, even with --debug."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_trial import CANARIES, CommandResult, Trial, command, edited_config, make_trial
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

Plant = Callable[[Trial, str], list[str]]  # plants a canary, and returns options for the command


def data(text: str) -> Plant:
    """Put the canary into the shop's rows, at each ``*``."""

    def plant(trial: Trial, canary: str) -> list[str]:
        (trial.folder / "shop.csv").write_text(text.replace("*", canary))
        return []

    return plant


def labels(text: str) -> Plant:
    """Put the canary into the bank's rows, and start the bank."""

    def plant(trial: Trial, canary: str) -> list[str]:
        (trial.folder / "bank.csv").write_text(text.replace("*", canary))
        return ["--role", "active", "--party", "bank"]

    return plant


def config(old: str, new: str) -> Plant:
    """Put the canary into the config."""

    def plant(trial: Trial, canary: str) -> list[str]:
        trial.write(edited_config(old, new.replace("*", canary)))
        return []

    return plant


def words(*given: str) -> Plant:
    """Put the canary on the command line."""
    return lambda _, canary: [word.replace("*", canary) for word in given]


def key_file(trial: Trial, canary: str) -> list[str]:
    return _with_key(trial, f"-----BEGIN PRIVATE KEY-----\n{canary}\n-----END PRIVATE KEY-----\n")


def key_password(trial: Trial, canary: str) -> list[str]:
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(canary.encode()),
    )
    return _with_key(trial, locked.decode())


def _with_key(trial: Trial, text: str) -> list[str]:
    certs = trial.folder / "certs"
    certs.mkdir()
    for name in ("ca.pem", "shop.pem"):
        (certs / name).write_bytes((trial.keys / name).read_bytes())
    (certs / "shop.key").touch(0o600)
    (certs / "shop.key").write_text(text)
    return ["--certificates", str(certs)]


def denied(trial: Trial, canary: str) -> list[str]:
    (trial.folder / "denied.txt").write_text(canary)
    trial.write(edited_config("[settings.shop]", '[settings.shop]\ndenied_file = "denied.txt"'))
    return []


PEM = '"""-----BEGIN RSA PRIVATE KEY-----\n*"""'
PLANTS: dict[str, tuple[Plant, int]] = {
    "duplicate ID": (data("id,age\n*,1\n*,2\n"), 4),
    "cell that is no number": (data("id,age\n1,*\n2,5\n"), 4),
    "ragged row": (data("id,age\n1,2\n2,3,*\n"), 4),
    "open quote": (data('id,age\n1,"*\n'), 4),
    "no rows": (data("id,age\n"), 4),
    "unknown label": (labels("id,age,label\n1,2,*\n2,3,no\n"), 4),
    "label of one row twice": (labels("id,age,label\n*,2,no\n*,3,yes\n"), 4),
    "password in party settings": (config("[settings.shop]", '[settings.shop]\npassword = "*"'), 3),
    "private key in party settings": (
        config("[settings.shop]", f"[settings.shop]\nmodule = {PEM}"),
        3,
    ),
    "text for a number": (config("epochs = 2", 'epochs = "*"'), 3),
    "kind of data": (config('kind = "csv"', 'kind = "*"'), 3),
    "user in an address": (config('"localhost:1"', '"user:*@localhost:1"'), 3),
    "pin that is none": (config("width = 4", 'width = 4\npins = ["*"]'), 3),
    "flag": (words("--key-password", "*"), 2),
    "setting": (words("--set", "limits.token=*"), 3),
    "change without a value": (words("--set", "*"), 3),
    "bytes of a key file": (key_file, 5),
    "password of a key file": (key_password, 5),
    "file of denied keys": (denied, 5),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("number", range(len(PLANTS)), ids=list(PLANTS))
def test_planted_secret_appears_nowhere(tmp_path: Path, keys: Path, number: int, form: str) -> None:
    plant, code = list(PLANTS.values())[number]
    trial = make_trial(tmp_path, keys)
    started(trial, plant(trial, CANARIES[number]), form).expect(code)
    written = [path.read_text() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not any(CANARIES[number] in text for text in written)


@pytest.mark.parametrize("form", ["text", "json"])
def test_error_texts_of_libraries_are_not_repeated(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A library may quote an ID or a password; only class and place of each error are shown."""

    def fail(*_: object, **__: object) -> None:
        try:
            raise KeyError(CANARIES[-1])
        except KeyError as error:
            raise ValueError(f"{CANARIES[-1]} again") from error

    monkeypatch.setattr("parties.vertical.setup.read_holding", fail)
    result = started(make_trial(tmp_path, keys), [], form)
    result.expect(
        1, "unexpected ValueError at test_canaries.py", "KeyError: 16 characters, not sho"
    )
    assert len(PLANTS) + 1 == len(CANARIES) == 20


def started(trial: Trial, more: list[str], form: str) -> CommandResult:
    """Start the party; the options ``more`` replace the usual ones."""
    options = dict(batched(trial.words())) | dict(batched(more))
    flat = [part for option in options.items() for part in option]
    return command("vfl-party", *flat, "--debug", "--format", form)


def batched(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))
