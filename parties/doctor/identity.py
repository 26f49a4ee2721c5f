"""Checks of a party's key and certificate, of the pinned fingerprints, and of the clock."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cryptography import x509

from parties.doctor.check import ExaminedParty, Finding, fail, ok, unknown, warning
from parties.session.identity import load_identity
from protocol.credentials import fingerprint
from protocol.errors import IdentityError
from protocol.keyring import AUTHORITY_KEY

SOON = timedelta(days=30)  # a certificate that ends within this time causes a warning
EARLIEST_PLAUSIBLE = datetime(2026, 1, 1, tzinfo=UTC)  # an earlier time is certainly wrong
_PATIENCE = 1.0  # seconds to wait for timedatectl


def check_identity(party: ExaminedParty) -> Iterator[Finding]:
    """Check key, certificate, pins and denied keys as a run does; report which keys are pinned."""
    now = datetime.now(UTC)
    try:
        keyring = load_identity(party.config, party.name, party.certificates, now).keyring
    except IdentityError as error:
        yield fail("certificate", error)
        return
    pin = fingerprint(keyring.identity.certificate)
    yield ok("certificate", f"{pin}, P-256, issued to {party.name}")
    yield _validity("certificate's end", keyring.identity.certificate, now)
    yield _validity("authority's end", keyring.authority, now)
    yield from _key_file(party)
    yield _pins(party)


def _validity(check: str, certificate: x509.Certificate, now: datetime) -> Finding:
    end = certificate.not_valid_after_utc
    left = end - now
    message = f"valid for {left.days} days, until {end:%Y-%m-%d %H:%M} UTC"
    if left > SOON:
        return ok(check, message)
    return warning(check, message, "renew it with vfl certs request and vfl certs sign")


def _key_file(party: ExaminedParty) -> Iterator[Finding]:
    path = party.certificates / f"{party.name}.key"
    status = path.stat()
    if status.st_uid != os.geteuid():
        yield warning(
            "key file",
            f"{path} belongs to another account",
            "change its owner to the account that runs vfl",
        )
    else:
        yield ok("key file", f"{path}, readable by its owner alone")
    if (party.certificates / AUTHORITY_KEY).exists():
        yield warning(
            "authority's key",
            f"{party.certificates / AUTHORITY_KEY} lies beside the party's own key",
            "keep it on another machine: with it, certificates of all parties can be made",
        )


def _pins(party: ExaminedParty) -> Finding:
    parties = party.config.agreement.parties
    free = [name for name, plan in parties.items() if not plan.pins]
    if not free:
        return ok("pins", f"the keys of all {len(parties)} parties are pinned")
    return warning(
        "pins",
        f"not pinned: {', '.join(free)}; any certificate of the authority is accepted for them",
        "run vfl pair with these parties, or compare fingerprints (vfl certs fingerprint) and "
        "write the pins into the agreement",
    )


def check_clock() -> Iterator[Finding]:
    """Check that the clock is plausible and synchronised; peers compare clocks when they join."""
    now = datetime.now(UTC)
    if now < EARLIEST_PLAUSIBLE:
        yield fail("clock", IdentityError(f"the clock shows {now:%Y-%m-%d}", "set the clock"))
        return
    synchronised = _synchronised(shutil.which("timedatectl"))
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if synchronised is None:
        yield unknown(
            "clock",
            f"{shown}; it is unknown whether NTP synchronises the clock",
            "compare the clock with that of the peers: they refuse a difference of 300 s",
        )
    elif synchronised:
        yield ok("clock", f"{shown}, synchronised by NTP")
    else:
        yield warning("clock", f"{shown}, not synchronised by NTP", "timedatectl set-ntp true")


def _synchronised(program: str | None) -> bool | None:
    if program is None:
        return None
    command = [program, "show", "--property=NTPSynchronized", "--value"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())
