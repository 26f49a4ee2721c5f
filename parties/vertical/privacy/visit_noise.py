"""Fresh noise at each release of embeddings or gradients, without an (ε, δ) guarantee."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from configs.privacy import EmbedTrain, GradNoise
from models.noise import Keystream, add_noise, clip_rows
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.vertical.engine.features import PartyFeatures
from parties.vertical.engine.party import VerticalParty
from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger, PrivacySpending
from protocol.hub import Hub


def noise_keystream(party: VerticalParty, session: bytes, purpose: str) -> Keystream:
    """Return a stream of random numbers for one purpose, in one session, at one party.

    The seed is derived from the party, the session, the purpose and random bytes. If two machines
    draw the same random bytes, for example because both are copies of one snapshot, the noise still
    differs between parties and between sessions.
    """
    start = party.incarnation.to_bytes(8, "big")
    words = (party.name.encode(), start, session, purpose.encode(), party.entropy(32))
    framed = b"".join(len(word).to_bytes(4, "big") + word for word in words)
    return Keystream(sha256(b"vfl/noise/v1\n" + framed).digest())


@dataclass(frozen=True, slots=True)
class VisitNoiseSettings:
    """Settings of the noise on values for one receiver, or for all receivers."""

    plan: EmbedTrain | GradNoise  # the agreed noise
    magnitude: float  # largest absolute value of a number that is sent
    peer: str = ""  # name of the receiver; empty if all receivers get the same noise


class VisitNoise:
    """Adds fresh noise to every row that is sent; the ledger records the release beforehand.

    When the first row of a row set is sent, the ledger records a release of every row in the row
    set, so that a pass over the row set needs only one write. After a crash the ledger may
    therefore count releases of rows that were not sent.
    """

    def __init__(
        self,
        settings: VisitNoiseSettings,
        ledger: PrivacyLedger,
        ids: Sequence[bytes],
        noise: Keystream,
    ) -> None:
        self._settings, self._ledger, self._noise = settings, ledger, noise
        self._tags = ledger.tags(ids)
        plan = settings.plan
        self._mechanism = Mechanism("visit", peer=settings.peer, sigma=plan.sigma, clip=plan.clip)
        self._sent = np.zeros(len(ids), np.int64)
        self._charged = np.zeros(len(ids), np.int64)

    def with_noise(self, rows: Index, within: Index, values: Tensor) -> Tensor:
        """Clip ``values``, [batch, width], and add noise; ``rows``, [batch], are their row indices.

        Backpropagation treats the noise as a constant. ``within``, [rows], is the row set whose
        release the ledger records.

        Returns:
            The noisy values, [batch, width].

        Raises:
            PolicyError: a row would be released more often than agreed.
        """
        np.add.at(self._sent, rows, 1)  # one request may contain a row twice
        if (self._sent[rows] > self._charged[rows]).any():
            self._charge(rows, within)
        plan, limit = self._settings.plan, self._settings.magnitude
        if plan.clip is not None:
            values = clip_rows(values, plan.clip)
        return torch.clamp(add_noise(values, plan.sigma, self._noise), -limit, limit)

    def _charge(self, now: Index, within: Index) -> None:
        """Charge the rows that are sent now, and the next release of other rows in the row set."""
        rows = np.union1d(now, within)
        wanted = self._sent[rows] + ~np.isin(rows, now)
        times = np.maximum(wanted - self._charged[rows], 0)
        tags = [self._tags[row] for row in rows.tolist()]
        self._ledger.charge(tags, self._mechanism, times, self._allow)
        self._charged[rows] += times

    def _allow(self, spent: PrivacySpending) -> None:
        limit = self._settings.plan.visits
        if limit is not None and spent.releases > limit:
            raise PolicyError(
                f"privacy: values of one row would be sent {spent.releases} times, but the agreed "
                f"limit is visits = {limit}",
                "agree on more visits or fewer epochs; the ledger also counts earlier runs in this "
                "folder",
            )


def gradient_noise(
    party: VerticalParty, hub: Hub, features: PartyFeatures
) -> dict[str, VisitNoise]:
    """For each passive party, by name, the agreed noise on the gradients that it receives.

    The result is empty if the agreement has no ``privacy.grad_noise``.
    """
    plan = party.agreement.privacy.grad_noise
    if plan is None:
        return {}
    ledger, ids, noises = PrivacyLedger(party.state, party.entropy), features.ids(), {}
    for name, channel in hub.channels.items():
        settings = VisitNoiseSettings(plan, party.agreement.limits.magnitude, name)
        noise = noise_keystream(party, channel.session or b"", f"gradients for {name}")
        noises[name] = VisitNoise(settings, ledger, ids, noise)
    return noises
