"""What one party needs at run time: settings, identity, clock, progress display and traffic."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from configs.agreement import FOREVER, LimitSettings
from configs.config_file import AnyAgreement, agreement_digest, canonical_agreement
from configs.party_settings import PartySettingsBase
from parties.common.progress import ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.session.store.sealing import KeyFile
from protocol.credentials import Trust
from protocol.envelope import SEND_SECONDS, ChannelTerms
from protocol.keyring import Keyring
from protocol.receive_queue import LineTimeouts


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """The version of the kept model from which a training goes on."""

    run: bytes  # the run that trained the version, 16 bytes
    number: int  # number of the version
    parties: tuple[str, ...]  # the parties of the agreement under which the version was made

    def __str__(self) -> str:
        """Describe the version for people."""
        return f"version {self.number} of run {self.run.hex()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedParty:
    """The part of a party that its start determines in the same way in all modes."""

    name: str  # name of the party in the agreement
    keyring: Keyring  # the party's key and certificates
    trust: Trust  # rules by which peers' certificates are checked
    state: Path  # folder of the party's own files in the run
    incarnation: int  # number of this start; each start of the party has a larger number
    now: Callable[[], datetime]  # returns the present time
    entropy: Callable[[int], bytes]  # returns as many random bytes as requested
    progress: ProgressReporter  # reports progress and warnings
    traffic: TrafficCounter  # counts messages and bytes
    # Whether the party waits for others without a limit; see ``StartOptions``.
    supervised: bool = False
    master_key: bytes | None = None  # wraps the keys in the party's key file; None: not wrapped
    # Whether the party carries out requests with a kept model; otherwise it trains or predicts.
    serves: bool = False
    replays: str = ""  # ID of the request that the party replays; empty otherwise
    # The kept version from which a training goes on, a number or ``NEWEST``; empty: new weights.
    continues: str = ""

    @property
    def keys(self) -> KeyFile:
        """Return the keys of the party's sealed files."""
        return KeyFile(self.state, self.master_key)

    def values(self) -> dict[str, Any]:
        """Return the attributes by name, for the constructor of a mode's party."""
        return {each.name: getattr(self, each.name) for each in fields(StartedParty)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyContext(StartedParty):
    """A party on this machine, in any mode."""

    agreement: AnyAgreement  # the shared agreement
    settings: PartySettingsBase  # the party's own settings
    # The run whose model is used for prediction, 16 bytes; empty for training.
    model_run: bytes = b""
    # The kept version from which a training goes on; None: new weights, or the party is new.
    base: BaseVersion | None = None

    @property
    def limits(self) -> LimitSettings:
        """Return the limits of the agreement; without timeouts if the party is supervised."""
        limits = self.agreement.limits
        return limits.without_timeouts() if self.supervised else limits

    @property
    def line_timeouts(self) -> LineTimeouts:
        """Return the timeouts of this party's connections; all long if it is supervised."""
        if not self.supervised:
            return LineTimeouts()
        return LineTimeouts(silence=FOREVER, handshake=FOREVER, keepalive_timeout=FOREVER)

    @property
    def digest(self) -> bytes:
        """Return the digest of the agreement, 32 bytes."""
        return agreement_digest(self.agreement)

    @property
    def purpose(self) -> bytes:
        """Return the bytes that the handshake signs: the agreement's digest and what follows."""
        if self.replays:
            return self.digest + f"replay {self.replays}".encode()
        if self.continues:
            return self.digest + b"continue"
        return self.digest + (b"serve" if self.serves else self.model_run)

    @property
    def canonical_agreement(self) -> str:
        """Return the agreement as canonical JSON, as sent in Hello."""
        return canonical_agreement(self.agreement)

    def terms(self, peer: str) -> ChannelTerms:
        """Return the values that a channel to ``peer`` compares with the messages of ``peer``."""
        return ChannelTerms(
            self.name,
            peer,
            self.digest,
            self.incarnation,
            self.limits.magnitude,
            FOREVER if self.supervised else SEND_SECONDS,
        )
