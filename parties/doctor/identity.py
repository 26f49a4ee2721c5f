"""Is this party who it says it is: key, certificate, pins, and the clock that judges validity."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509

from parties.doctor.check import Finding, Looked, fail, ok, unknown, warning
from protocol.credentials import Trust, fingerprint
from protocol.errors import IdentityError
from protocol.keyring import AUTHORITY_KEY, Keyring, read_keyring, trust

SOON = timedelta(days=30)
BUILT = datetime(2026, 1, 1, tzinfo=UTC)  # no clock that is right shows an earlier day
_PATIENCE = 1.0  # seconds for timedatectl


def check_identity(examined: Looked) -> Iterator[Finding]:
    """Key file, certificate and pins."""
    now = datetime.now(UTC)
    try:
        keyring = read_keyring(examined.certificates, examined.name)
        named = trusted(examined, keyring).check(keyring.identity.certificate, now)
        if named != examined.name:
            raise IdentityError(f"the certificate of {examined.name} names {named}")
    except IdentityError as error:
        yield fail("certificate", error)
        return
    yield ok("certificate", f"{fingerprint(keyring.identity.certificate)}, P-256, named {named}")
    yield _validity("certificate's end", keyring.identity.certificate, now)
    yield _validity("authority's end", keyring.authority, now)
    yield from _key_file(examined)
    yield _pins(examined)


def trusted(examined: Looked, keyring: Keyring) -> Trust:
    """Whom this party believes."""
    agreement = examined.config.agreement
    pins: dict[str, Sequence[str]] = {
        name: plan.pins for name, plan in agreement.parties.items() if plan.pins
    }
    return trust(keyring, agreement.federation, pins, examined.seat.denied)


def _validity(subject: str, certificate: x509.Certificate, now: datetime) -> Finding:
    end = certificate.not_valid_after_utc
    left = end - now
    said = f"{left.days} days left, until {end:%Y-%m-%d %H:%M} UTC"
    if left > SOON:
        return ok(subject, said)
    return warning(subject, said, "renew it: vfl certs request, vfl certs sign")


def _key_file(examined: Looked) -> Iterator[Finding]:
    path = examined.certificates / f"{examined.name}.key"
    status = path.stat()
    if status.st_uid != os.geteuid():
        yield warning(
            "key file", f"{path} belongs to another account", "chown it to the one that runs vfl"
        )
    else:
        yield ok("key file", f"{path}, readable for its owner alone")
    if (examined.certificates / AUTHORITY_KEY).exists():
        yield warning(
            "authority's key",
            f"{examined.certificates / AUTHORITY_KEY} lies beside the party's own key",
            "whoever has it can become any party: keep it on another machine",
        )


def _pins(examined: Looked) -> Finding:
    parties = examined.config.agreement.parties
    free = [name for name, plan in parties.items() if not plan.pins]
    if not free:
        return ok("pins", f"the keys of all {len(parties)} parties are pinned")
    return warning(
        "pins",
        f"not pinned: {', '.join(free)}; whoever the authority certified is believed",
        "compare fingerprints (vfl certs fingerprint) and write pins into the agreement",
    )


def check_clock() -> Iterator[Finding]:
    """Whether the time can be right; peers compare their clocks only when they greet."""
    now = datetime.now(UTC)
    if now < BUILT:
        yield fail("clock", IdentityError(f"the clock shows {now:%Y-%m-%d}", "set the clock"))
        return
    kept = _synchronised(shutil.which("timedatectl"))
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if kept is None:
        yield unknown(
            "clock",
            f"{shown}; nobody here says whether it is kept by NTP",
            "peers refuse each other at 300 s apart: compare it with theirs",
        )
    elif kept:
        yield ok("clock", f"{shown}, kept by NTP")
    else:
        yield warning("clock", f"{shown}, not kept by NTP", "timedatectl set-ntp true")


def _synchronised(program: str | None) -> bool | None:
    if program is None:
        return None
    command = [program, "show", "--property=NTPSynchronized", "--value"]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(asked.stdout.strip())
