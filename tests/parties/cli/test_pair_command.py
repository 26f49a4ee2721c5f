"""``vfl pair``: the certificates and pins of three parties, and every refusal."""

import shutil
import threading
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from configs.config_file import read_any
from parties.cli.main import app
from parties.cli.modes import SCHEMAS
from parties.cli.setup import pairing
from parties.cli.setup.pairing import PairingPlace, pair_as_hub, pair_as_partner
from parties.common.errors import PartyError
from parties.session.identity import load_identity
from protocol.credentials import fingerprint
from protocol.errors import IdentityError, ProtocolError
from protocol.keyring import make_authority

AGREEMENT = """\
# the same file at all parties
federation = "people"

[labels]
classes = ["no", "yes"]

[parties.bank]
role = "active"    # has the labels

[parties.shop]
role = "passive"
width = 4
bottom = { kind = "mlp", hidden = [8] }

[parties.club]
role = "passive"
width = 4
bottom = { kind = "mlp", hidden = [8] }

[training]
epochs = 1    # short
"""
SETTINGS = """\
{} = "{}"

[data]
kind = "csv"
path = "{}.csv"
id = {{ columns = ["id"] }}
numeric = ["x"]
"""
CODES = {"club": "0000-0001", "shop": "0000-0002"}


class _Federation:
    """Three folders, one a party."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("bank", "shop", "club"):
            (home / name).mkdir()
            (home / name / "people.toml").write_text(AGREEMENT)
            key = "listen" if name == "bank" else "hub"
            text = SETTINGS.format(key, f"unix:{home / 'socket'}", name)
            label = 'label = "y"\n' if name == "bank" else ""
            (home / name / f"{name}.party.toml").write_text(text + label)

    def place(self, name: str, seconds: float = 20.0) -> PairingPlace:
        folder = self.home / name
        return PairingPlace(
            config=read_any(folder / "people.toml", SCHEMAS),
            party=name,
            certificates=folder / "certs",
            address=f"unix:{self.home / 'socket'}",
            seconds=seconds,
        )

    def agreement(self, name: str) -> Path:
        return self.home / name / "people.toml"

    def pair(self, codes: Mapping[str, str] = CODES) -> dict[str, Exception]:
        """Pair all, where each partner types its code in ``codes``; return who failed, and why."""
        failed: dict[str, Exception] = {}

        def attempt(name: str, work: Callable[[], None]) -> threading.Thread:
            def run() -> None:
                try:
                    work()
                except (ProtocolError, PartyError) as error:
                    failed[name] = error

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        authority = self.home / "bank" / "authority"
        hub = self.place("bank")
        threads = [attempt("bank", lambda: pair_as_hub(hub, CODES, authority, lambda *_: None))]
        for name, code in codes.items():
            place = self.place(name)
            threads.append(attempt(name, lambda p=place, c=code: pair_as_partner(p, c)))  # type: ignore[misc]
        for thread in threads:
            thread.join()
        return failed


@pytest.fixture
def federation(tmp_path: Path) -> _Federation:
    return _Federation(tmp_path)


def test_all_parties_have_certificates_and_the_same_pins(federation: _Federation) -> None:
    federation.agreement("shop").chmod(0o640)
    assert federation.pair() == {}
    assert federation.agreement("shop").stat().st_mode & 0o777 == 0o640
    texts = [federation.agreement(name).read_text() for name in ("bank", "shop", "club")]
    assert texts[0] == texts[1] == texts[2]
    assert AGREEMENT.splitlines() == [
        line for line in texts[0].splitlines() if not line.startswith("pins = ")
    ]
    pins = {name: each["pins"] for name, each in tomllib.loads(texts[0])["parties"].items()}
    for name in ("bank", "shop", "club"):
        config = read_any(federation.agreement(name), SCHEMAS)
        certificates = federation.home / name / "certs"
        identity = load_identity(config, name, certificates, datetime.now(UTC))
        assert identity.warnings == ()
        assert pins[name] == [fingerprint(identity.keyring.identity.certificate)]
        assert (certificates / f"{name}.key").stat().st_mode & 0o077 == 0
    assert not list(federation.home.glob("*/certs/ca.key"))
    assert [each.parent.name for each in federation.home.rglob("shop.key")] == ["certs"]


def test_pairing_again_renews_certificates_and_keeps_keys(federation: _Federation) -> None:
    assert federation.pair() == {}
    texts = federation.agreement("shop").read_text()
    key = federation.home / "shop" / "certs" / "shop.key"
    before, certificate = key.read_bytes(), key.with_suffix(".pem").read_bytes()
    assert federation.pair() == {}
    assert key.read_bytes() == before
    assert key.with_suffix(".pem").read_bytes() != certificate
    assert federation.agreement("shop").read_text() == texts


def test_a_wrong_code_writes_no_pin_anywhere(federation: _Federation) -> None:
    failed = federation.pair(CODES | {"shop": "9999-9999"})
    assert set(failed) == {"bank", "shop", "club"}
    assert "shop, called from" in str(failed["bank"])
    for name in ("bank", "shop", "club"):
        assert "pins" not in federation.agreement(name).read_text()


def test_differing_agreements_are_told_to_both(federation: _Federation) -> None:
    path = federation.agreement("shop")
    path.write_text(path.read_text().replace("epochs = 1", "epochs = 2"))
    failed = federation.pair()
    for name in ("bank", "shop"):
        assert "training.epochs: 1 here, 2 at shop" in str(failed[name])
    assert "pins" not in federation.agreement("bank").read_text()


def test_a_pin_of_another_key_is_not_replaced(federation: _Federation) -> None:
    assert federation.pair() == {}
    shutil.rmtree(federation.home / "shop" / "certs")  # a new key is made
    failed = federation.pair()
    assert isinstance(failed["bank"], IdentityError)
    assert "the agreement pins another key of shop" in str(failed["bank"])
    assert "the agreement pins another key of shop" in str(failed["shop"])


@pytest.mark.parametrize("longer", ["bank", "shop"])
def test_pins_that_differ_are_neither_dropped_nor_added(
    federation: _Federation, longer: str
) -> None:
    assert federation.pair() == {}
    extra = f"sha256:{64 * 'a'}"
    (pin,) = read_any(federation.agreement(longer), SCHEMAS).agreement.parties["club"].pins
    path = federation.agreement(longer)
    path.write_text(path.read_text().replace(f'["{pin}"]', f'["{pin}", "{extra}"]'))
    certificate = federation.home / "shop" / "certs" / "shop.pem"
    files = [federation.agreement(name) for name in ("bank", "shop", "club")]
    before = [each.read_bytes() for each in (*files, certificate)]
    failed = federation.pair()
    for name in ("bank", "shop"):
        assert isinstance(failed[name], IdentityError)
        assert f"have different pins of club: only {longer} has {extra}" in str(failed[name])
        shown = f"{failed[name]} {getattr(failed[name], 'hint', '')}"
        assert "write the same list parties.club.pins" in shown
    assert [each.read_bytes() for each in (*files, certificate)] == before


def test_equal_pins_of_two_keys_are_kept(federation: _Federation) -> None:
    assert federation.pair() == {}
    extra = f"sha256:{64 * 'a'}"
    for name in ("bank", "shop"):
        path = federation.agreement(name)
        path.write_text(path.read_text().replace('pins = ["', f'pins = ["{extra}", "', 1))
    text = federation.agreement("club").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("pins = ")]
    federation.agreement("club").write_text("\n".join(lines) + "\n")  # has no pins yet
    assert federation.pair() == {}
    lists = [
        {name: set(each.pins) for name, each in read_any(path, SCHEMAS).agreement.parties.items()}
        for path in map(federation.agreement, ("bank", "shop", "club"))
    ]
    assert lists[0] == lists[1] == lists[2]
    assert extra in lists[0]["bank"]


def test_partner_compares_pins_itself(
    federation: _Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that sends other pins than those of the partner's agreement changes nothing there."""
    assert federation.pair() == {}
    path = federation.agreement("shop")
    path.write_text(path.read_text().replace('pins = ["', f'pins = ["sha256:{64 * "a"}", "', 1))
    before = path.read_bytes()
    sent = pairing.request_pairing

    def without_pins(address: str, names: Any, code: str, request: Any, seconds: float) -> Any:
        bare = request.model_copy(update={"pins": {}})
        return sent(address, names, code, bare, seconds)

    monkeypatch.setattr(pairing, "request_pairing", without_pins)
    failed = federation.pair()
    assert set(failed) == {"shop"}
    assert "have different pins of bank: only shop has" in str(failed["shop"])
    assert path.read_bytes() == before


def test_another_authority_is_not_replaced(federation: _Federation) -> None:
    assert federation.pair() == {}
    shutil.rmtree(federation.home / "bank" / "authority")
    authority = federation.home / "bank" / "authority"
    with pytest.raises(IdentityError, match="is the certificate of another authority"):
        pair_as_hub(federation.place("bank"), CODES, authority, lambda *_: None)


@pytest.mark.parametrize("paired", [False, True])
def test_an_authority_without_its_certificate_is_completed(
    federation: _Federation, *, paired: bool
) -> None:
    authority = federation.home / "bank" / "authority"
    if paired:
        assert federation.pair() == {}
    else:
        make_authority(authority, "people")
    before = (authority / "ca.pem").read_bytes()
    (authority / "ca.pem").unlink()  # as after an interruption
    key = (authority / "ca.key").read_bytes()
    assert federation.pair() == {}
    assert (authority / "ca.key").read_bytes() == key
    assert ((authority / "ca.pem").read_bytes() == before) is paired
    roots = {path.read_bytes() for path in federation.home.rglob("ca.pem")}
    assert roots == {(authority / "ca.pem").read_bytes()}


def test_an_authority_without_its_key_is_not_replaced(federation: _Federation) -> None:
    assert federation.pair() == {}
    authority = federation.home / "bank" / "authority"
    (authority / "ca.key").unlink()  # kept elsewhere
    with pytest.raises(IdentityError, match=r"ca\.pem already exists and is not overwritten"):
        pair_as_hub(federation.place("bank"), CODES, authority, lambda *_: None)
    assert [path.name for path in authority.iterdir()] == ["ca.pem"]


def _pair(*options: object) -> str:
    words = ["pair", *map(str, options)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    return result.output


def test_options_of_the_other_side_are_refused(federation: _Federation) -> None:
    shop, bank = federation.agreement("shop"), federation.agreement("bank")
    assert "remove --code" in _pair(bank, "--party", "bank", "--code", "1")
    assert "--authority is for the hub" in _pair(
        shop, "--party", "shop", "--authority", "a", "--code", "1"
    )
    assert "a code has 8 digits" in _pair(shop, "--party", "shop", "--code", "1234")
