"""One party at run time: what every role program has at hand."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import torch

from configs.agreement import Agreement
from configs.schema import canonical, digest
from configs.seat import Chair, Seat
from configs.shared import Shared
from parties.common.progress import Watch
from parties.common.traffic import Ledger
from parties.data.holding import Holding
from protocol.credentials import Trust
from protocol.envelope import Terms
from protocol.keyring import Keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """A seat taken, in any mode: settings, identity and the means to act on them."""

    name: str
    agreement: Shared
    seat: Chair
    keyring: Keyring
    trust: Trust
    state: Path  # this party's own folder of the run
    incarnation: int
    now: Callable[[], datetime]
    entropy: Callable[[int], bytes]
    watch: Watch
    ledger: Ledger
    predicts: bytes = b""  # the run whose model we predict with; empty: we train

    @property
    def digest(self) -> bytes:
        """The digest of our agreement."""
        return digest(self.agreement)

    @property
    def purpose(self) -> bytes:
        """What a greeting is signed for: our agreement and, for prediction, the model's run."""
        return self.digest + self.predicts

    @property
    def canonical(self) -> str:
        """Our agreement as the peers may read it."""
        return canonical(self.agreement)

    def terms(self, peer: str) -> Terms:
        """The terms of our channel to ``peer``."""
        return Terms(
            self.name, peer, self.digest, self.incarnation, self.agreement.limits.magnitude
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Party(Seated):
    """A party of a vertical run, with its data."""

    agreement: Agreement
    seat: Seat
    holding: Holding

    @property
    def device(self) -> torch.device:
        """Where our half of the model is computed; ``take_seat`` has seen that it is there."""
        return torch.device(self.seat.device)
