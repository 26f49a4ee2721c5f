"""``vfl pair``: keys, certificates and pins of a federation by a one-time code for each partner."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomlkit
from cryptography import x509

from configs.config_file import (
    AnyAgreement,
    AnyConfig,
    agreement_differences,
    canonical_agreement,
    read_any,
)
from configs.errors import ConfigError
from parties.cli.modes import SCHEMAS
from parties.common.atomic_file import write_atomically, writing_into
from parties.common.errors import StorageError
from protocol.certificate_request import read_pin, request_certificate, sign_request
from protocol.credentials import Trust, fingerprint
from protocol.errors import IdentityError
from protocol.keyring import (
    AUTHORITY,
    AUTHORITY_KEY,
    complete_authority,
    make_authority,
    read_certificate_file,
)
from protocol.pairing.exchange import PairingAnswer, PairingRefused, PairingRequest
from protocol.pairing.service import PairingServer, request_pairing

_AUTHORITY_DAYS = 1825  # days until the certificate of a new authority ends
_SHOWN = 3  # differences of two agreements in a message
_LARGEST_REFUSAL = 1000  # characters of the reason that partners receive


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingPlace:
    """Where a party pairs.

    Attributes:
        config: the agreement and this party's settings.
        party: name of this party.
        certificates: folder of this party's key and certificates.
        address: address of the hub.
        seconds: longest time to wait for the others.
    """

    config: AnyConfig
    party: str
    certificates: Path
    address: str
    seconds: float

    @property
    def agreement(self) -> AnyAgreement:
        """The agreement."""
        return self.config.agreement

    @property
    def partners(self) -> list[str]:
        """The parties that connect to the hub."""
        return sorted(each for each in self.agreement.parties if each != self.agreement.hub)


def pair_as_hub(
    place: PairingPlace,
    codes: Mapping[str, str],
    authority: Path,
    arrived: Callable[[str, str], None],
) -> None:
    """Make this party's certificate, and sign those of all partners that call with their code.

    The authority in the folder ``authority`` is made if it is absent. Certificates and pins are
    written before the answers are sent, so the command can be repeated after a failure.

    Raises:
        IdentityError: a code was wrong, agreements or pins differ, or another key is pinned
            already.
        LineBroken: the address cannot be used, or a partner did not call in time.
        StorageError: a file cannot be written.
    """
    federation = place.agreement.federation
    own = _own_certificate(place, authority)
    server = PairingServer(place.address, federation, place.party, codes)
    try:
        requests = server.requests(place.seconds, arrived)
        try:
            answers = _answers(place, authority, own, requests)
        except (ConfigError, IdentityError, StorageError) as error:
            reason = ": ".join(filter(None, (str(error), error.hint)))[:_LARGEST_REFUSAL]
            server.answer(dict.fromkeys(codes, PairingRefused(refused=reason)))
            raise
        server.answer(answers)
    finally:
        server.close()


def pair_as_partner(place: PairingPlace, code: str) -> None:
    """Send this party's certificate request to the hub; write the certificates and pins it returns.

    Raises:
        IdentityError: the code is wrong, the hub refuses, or its answer does not fit this party.
        LineBroken: the hub cannot be reached.
        StorageError: a file cannot be written.
        ValueError: the code does not have eight digits.
    """
    federation, party = place.agreement.federation, place.party
    folder = place.certificates
    with writing_into(folder):
        pin = request_certificate(folder, federation, party)
    request = PairingRequest(
        certificate_request=(folder / f"{party}.csr").read_text(),
        agreement=_bare(place.agreement),
        pins=_known_pins(place.agreement),
    )
    hub = place.agreement.hub
    names = (federation, hub, party)
    answer = request_pairing(place.address, names, code, request, place.seconds)
    if set(answer.pins) != set(place.agreement.parties) or pin not in answer.pins[party]:
        raise IdentityError(
            "the hub's answer does not pin the keys of this agreement's parties",
            "give both the same agreement, and run vfl pair again",
        )
    _check_same_pins((hub, answer.pins), (party, _known_pins(place.agreement)))
    _check_certificate(answer, federation, party, pin)
    text = _pinned_text(place.config, answer.pins)
    with writing_into(folder):
        _write_same(folder / AUTHORITY, answer.authority.encode())
        write_atomically(folder / f"{party}.pem", answer.certificate.encode())
    _rewrite(place.config.path, text)


def _own_certificate(place: PairingPlace, authority: Path) -> str:
    """Make the hub's key and certificate, and the authority if it is absent; return the pin."""
    federation, party, folder = place.agreement.federation, place.party, place.certificates
    with writing_into(authority):
        if (authority / AUTHORITY_KEY).exists():
            complete_authority(authority, federation, folder / AUTHORITY, _AUTHORITY_DAYS)
        else:
            make_authority(authority, federation, _AUTHORITY_DAYS)
    with writing_into(folder):
        pin = request_certificate(folder, federation, party)
        signed = sign_request(authority, federation, party, folder / f"{party}.csr")
        _write_same(folder / AUTHORITY, (authority / AUTHORITY).read_bytes())
        write_atomically(folder / f"{party}.pem", signed)
    return pin


def _answers(
    place: PairingPlace, authority: Path, own: str, requests: Mapping[str, PairingRequest]
) -> dict[str, PairingAnswer]:
    """Sign the requests, write the pins into the agreement, and return the answers."""
    federation, pins = place.agreement.federation, {place.party: own}
    issued: dict[str, str] = {}
    for name, request in requests.items():
        _check_agreement(place.agreement, name, request.agreement)
        path = place.certificates / f"{name}.csr"
        with writing_into(place.certificates):
            write_atomically(path, request.certificate_request.encode())
        issued[name] = sign_request(authority, federation, name, path).decode()
        pins[name] = read_pin(path)
    lists = {name: _with_pin(place.agreement, name, pin) for name, pin in pins.items()}
    for name, request in requests.items():
        _check_same_pins((place.party, lists), (name, request.pins))
    _rewrite(place.config.path, _pinned_text(place.config, lists))
    root = (authority / AUTHORITY).read_text()
    return {
        name: PairingAnswer(authority=root, certificate=certificate, pins=lists)
        for name, certificate in issued.items()
    }


def _with_pin(agreement: AnyAgreement, name: str, pin: str) -> list[str]:
    """Return the pins of a party with the new one; refuse to replace a pin of another key."""
    known = list(agreement.parties[name].pins)
    if known and pin not in known:
        raise IdentityError(
            f"the agreement pins another key of {name}",
            f"if {name} has a new key, remove parties.{name}.pins from the agreement at all "
            "parties, and run vfl pair again",
        )
    return known or [pin]


def _known_pins(agreement: AnyAgreement) -> dict[str, list[str]]:
    """Return the pins of each party that has pins."""
    return {name: list(each.pins) for name, each in agreement.parties.items() if each.pins}


def _check_same_pins(
    hub: tuple[str, Mapping[str, list[str]]], partner: tuple[str, Mapping[str, list[str]]]
) -> None:
    """Refuse pins of the hub that differ from those that the partner's agreement has already.

    Args:
        hub: name of the hub, and its pins of every party.
        partner: name of the partner, and its pins of the parties that are pinned there.
    """
    for name, at_hub in hub[1].items():
        known = partner[1].get(name, [])
        if not known or set(known) == set(at_hub):
            continue
        lists = {hub[0]: set(at_hub) - set(known), partner[0]: set(known) - set(at_hub)}
        shown = "; ".join(
            f"only {where} has {' and '.join(sorted(pins)[:_SHOWN])}"
            for where, pins in lists.items()
            if pins
        )
        raise IdentityError(
            f"the agreements of {hub[0]} and {partner[0]} have different pins of {name}: {shown}",
            f"write the same list parties.{name}.pins into the agreement at all parties, or remove "
            f"it at all parties so that only the present key of {name} is pinned, and run vfl pair "
            "again",
        )


def _check_agreement(agreement: AnyAgreement, name: str, theirs: str) -> None:
    differences = agreement_differences(_bare(agreement), theirs)
    if differences:
        shown = "; ".join(
            f"{field}: {ours!r:.40} here, {other!r:.40} at {name}"
            for field, ours, other in differences[:_SHOWN]
        )
        more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise IdentityError(
            f"the agreement of {name} differs from that of the hub: {shown}{more}",
            "give both the same file",
        )


def _bare(agreement: AnyAgreement) -> str:
    """Return the canonical agreement without pins."""
    parties: Mapping[str, Any] = agreement.parties
    free = {name: each.model_copy(update={"pins": ()}) for name, each in parties.items()}
    return canonical_agreement(agreement.model_copy(update={"parties": free}))


def _check_certificate(answer: PairingAnswer, federation: str, party: str, pin: str) -> None:
    """Raise ``IdentityError`` unless the answer has a certificate of the authority for our key."""
    try:
        root = x509.load_pem_x509_certificate(answer.authority.encode())
        leaf = x509.load_pem_x509_certificate(answer.certificate.encode())
    except ValueError:
        raise IdentityError("the hub's answer has no certificates") from None
    named = Trust(federation, root, answer.pins).check(leaf, datetime.now(UTC))
    if named != party or fingerprint(leaf) != pin:
        raise IdentityError("the certificate in the hub's answer is not for this party's key")


def _pinned_text(config: AnyConfig, pins: Mapping[str, list[str]]) -> str:
    """Return the text of the agreement with these pins, comments and order unchanged.

    Raises:
        ConfigError: the pins cannot be written into the file.
    """
    document = tomlkit.parse(config.path.read_text(encoding="utf-8"))
    parties: Any = document["parties"]
    for name, each in pins.items():
        if list(parties[name].get("pins", [])) != each:
            parties[name]["pins"] = each
    text = tomlkit.dumps(document)
    trial = config.path.with_name(f".{config.path.stem}.pairing.toml")
    try:
        write_atomically(trial, text.encode())
        read = read_any(trial, SCHEMAS).agreement
    finally:
        trial.unlink(missing_ok=True)
    if _bare(read) != _bare(config.agreement):
        raise ConfigError(
            f"the pins cannot be written into {config.path} without another change",
            "write each party as a table [parties.NAME]",
        )
    return text


def _rewrite(path: Path, text: str) -> None:
    """Write the agreement; who may read it stays as it was."""
    mode = path.stat().st_mode
    write_atomically(path, text.encode())
    path.chmod(mode)


def _write_same(path: Path, content: bytes) -> None:
    """Write a file; a file with another content is kept, and is an error."""
    if path.exists() and read_certificate_file(path) != content:
        raise IdentityError(
            f"{path} is the certificate of another authority",
            "move the file away, or name another folder in the settings (certificates)",
        )
    write_atomically(path, content)
