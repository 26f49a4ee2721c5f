"""Noise at every visit of a row: on embeddings or gradients, counted, and without an (ε, δ)."""

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
from parties.session.party import Party
from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger, Spent


def keystream(party: Party, session: bytes, purpose: str) -> Keystream:
    """Fresh random numbers for one purpose of one session of one party.

    Names go in besides the entropy, so that a machine whose entropy is copied with it (a snapshot)
    does not give two parties or sessions the same noise.
    """
    start = party.incarnation.to_bytes(8, "big")
    words = (party.name.encode(), start, session, purpose.encode(), party.entropy(32))
    framed = b"".join(len(word).to_bytes(4, "big") + word for word in words)
    return Keystream(sha256(b"vfl/noise/v1\n" + framed).digest())


@dataclass(frozen=True, slots=True)
class Way:
    """Which way noise goes: the plan, and to whom, where peers get different things."""

    plan: EmbedTrain | GradNoise
    magnitude: float  # of a number on the wire
    peer: str = ""


class Visits:
    """Adds fresh noise whenever a row is sent, once the ledger has it.

    The ledger is charged for a whole row set when its first row is sent, so a pass over the rows
    is one write; what was charged and not sent because of a crash stays charged.
    """

    def __init__(
        self, way: Way, ledger: PrivacyLedger, ids: Sequence[bytes], noise: Keystream
    ) -> None:
        self._way, self._ledger, self._noise = way, ledger, noise
        self._tags = ledger.tags(ids)
        plan = way.plan
        self._how = Mechanism("visit", peer=way.peer, sigma=plan.sigma, clip=plan.clip)
        self._sent = np.zeros(len(ids), np.int64)
        self._charged = np.zeros(len(ids), np.int64)

    def noised(self, rows: Index, within: Index, values: Tensor) -> Tensor:
        """What is sent for ``rows`` of the row set ``within``; gradients pass through.

        Raises:
            PolicyError: a row would be released more often than was agreed.
        """
        np.add.at(self._sent, rows, 1)  # a row may be asked for twice at once
        if (self._sent[rows] > self._charged[rows]).any():
            self._charge(rows, within)
        plan, limit = self._way.plan, self._way.magnitude
        if plan.clip is not None:
            values = clip_rows(values, plan.clip)
        return torch.clamp(add_noise(values, plan.sigma, self._noise), -limit, limit)

    def _charge(self, now: Index, within: Index) -> None:
        """Charge the rows that are sent now, and the next visit of the others."""
        rows = np.union1d(now, within)
        wanted = self._sent[rows] + ~np.isin(rows, now)
        times = np.maximum(wanted - self._charged[rows], 0)
        tags = [self._tags[row] for row in rows.tolist()]
        self._ledger.charge(tags, self._how, times, self._allow)
        self._charged[rows] += times

    def _allow(self, spent: Spent) -> None:
        most = self._way.plan.visits
        if most is not None and spent.releases > most:
            raise PolicyError(
                f"privacy: a row would be released {spent.releases} times, and {most} are agreed",
                "the ledger outlives a run; agree on more visits, or on fewer epochs",
            )
