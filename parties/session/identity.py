"""Identity of a party: its key, certificates, pins and denied keys, checked before data is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from configs.config_file import AnyConfig
from parties.common.progress import ProgressReporter
from protocol.credentials import Trust
from protocol.errors import IdentityError
from protocol.keyring import Keyring, certificate_days_left, make_trust, read_keyring

ENDS_SOON = (1, 7, 14, 30)  # a start warns if the certificate ends within so many days


@dataclass(frozen=True, slots=True)
class PartyIdentity:
    """A party's key and certificates, its rules for peers' certificates, and warnings."""

    keyring: Keyring
    trust: Trust
    warnings: tuple[str, ...]


def load_identity(
    config: AnyConfig, name: str, certificates: Path | None, now: datetime
) -> PartyIdentity:
    """Read a party's key and certificate, and check them by the rules that its peers apply.

    Args:
        config: a config of any mode.
        name: the party.
        certificates: folder of the key and certificates; default: the folder in the party settings.
        now: present time.

    Raises:
        IdentityError: a certificate breaks a rule, or there is a warning and ``strict`` is true.
    """
    agreement, settings, beside = config.agreement, config.settings(name), config.path.parent
    keyring = read_keyring(certificates or beside / settings.certificates, name)
    pins: dict[str, Sequence[str]] = {
        peer: plan.pins for peer, plan in agreement.parties.items() if plan.pins
    }
    denied_file = beside / settings.denied_file if settings.denied_file else None
    trusted = make_trust(keyring, agreement.federation, pins, settings.denied, denied_file)
    trusted = replace(trusted, former=settings.former)
    certificate = keyring.identity.certificate
    named = trusted.check(certificate, now)
    if named != name:
        raise IdentityError(
            f"the certificate of {name} is issued to {named}",
            "each party needs its own certificate",
        )
    warnings = list(_warnings(certificate, now, pinned=bool(pins)))
    if settings.strict and warnings:
        warning, hint = warnings[0]
        raise IdentityError(
            f"{warning}; this warning is an error, because the settings have strict = true", hint
        )
    return PartyIdentity(
        keyring, trusted, tuple(f"{warning}: {hint}" for warning, hint in warnings)
    )


def open_identity(
    config: AnyConfig, name: str, certificates: Path | None, progress: ProgressReporter
) -> PartyIdentity:
    """Load the identity of the party ``name``, and report its warnings as progress events.

    Raises:
        IdentityError: a certificate breaks a rule.
    """
    identity = load_identity(config, name, certificates, datetime.now(UTC))
    for warning in identity.warnings:
        progress.warn(warning)
    return identity


def _warnings(
    certificate: x509.Certificate, now: datetime, *, pinned: bool
) -> Iterator[tuple[str, str]]:
    """Yield warning and hint for each legal but risky setting."""
    left = certificate_days_left(certificate, now)
    within = next((days for days in ENDS_SOON if left <= days), None)
    if within is not None:
        end = certificate.not_valid_after_utc
        yield (
            f"our certificate ends within {within} day{'s' * (within > 1)}, "
            f"on {end:%Y-%m-%d %H:%M} UTC",
            "renew it, or a longer run will fail",
        )
    if not pinned:
        yield (
            "the agreement pins no keys, so any certificate of the authority is accepted",
            "run vfl pair with the other parties, or add the pins that vfl certs prints to "
            "[parties.NAME]",
        )
