"""Releases that are made once: a passive party's embeddings, and the active party's labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor, nn

from configs.privacy import EmbedOnce, LabelDp
from models.independence import mixes_rows
from models.noise import gaussian_mechanism, randomised_response
from parties.common.device import embed
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.privacy.accounting import at_most, epsilon_of
from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger, Spent
from parties.vertical.privacy.release_cache import Kept, Named
from parties.vertical.privacy.visits import keystream

EMBEDDINGS, LABELS = "embeddings", "labels"  # files of what was released


@dataclass(frozen=True, slots=True)
class Frozen:
    """A bottom that nothing was learnt with, the features of some rows, and their IDs."""

    network: nn.Module
    inputs: Tensor  # [rows, ...]
    ids: Sequence[bytes]


class OnceReleased:
    """The embeddings of a passive party as they are sent: clipped, noised, always the same."""

    def __init__(self, party: Party, plan: EmbedOnce, session: bytes, frozen: Frozen) -> None:
        """Release what was not released yet, the ledger first.

        Raises:
            PolicyError: δ is too large for so many rows, rows influence each other, or the budget
                does not allow it.
        """
        _refuse(party, plan, frozen)
        ledger = PrivacyLedger(party.state, party.entropy)
        how = Mechanism("once", sigma=plan.noise_multiplier * plan.clip, clip=plan.clip)
        self._kept = Kept(party.state, EMBEDDINGS, _settings(how, frozen.network))
        contents = [row.numpy().tobytes() for row in frozen.inputs]
        self._rows = Named(ledger.tags(frozen.ids), ledger.prints(contents))
        charge = partial(_charge, ledger, how, self._rows, partial(_within, plan))
        noise, limit = keystream(party, session, EMBEDDINGS), party.agreement.limits.magnitude

        @torch.no_grad()
        def release(rows: Index) -> Tensor:
            embedding = embed(frozen.network, frozen.inputs[rows])
            noised = gaussian_mechanism(embedding, plan.clip, how.sigma, noise)
            return torch.clamp(noised, -limit, limit)

        self.values = self._kept.once(self._rows, charge, release)  # [rows, width]
        self.spent = ledger.spent(self._rows.tags, how.kind)

    def forget(self, rows: Index) -> None:
        """Remove what was released of ``rows``; the ledger goes on knowing that it was."""
        self._kept.forget([self._rows.tags[row] for row in rows.tolist()])
        self.values[rows] = 0

    def remains(self, rows: Index) -> bool:
        """Whether anything that was released of ``rows`` is still kept."""
        return self._kept.holds([self._rows.tags[row] for row in rows.tolist()])


class OnceFlipped:
    """Labels as they are used: flipped by chance once, and the same in every run in this folder."""

    def __init__(self, party: Party, plan: LabelDp, ids: Sequence[bytes], labels: Tensor) -> None:
        """Flip what was not flipped yet, the ledger first.

        Raises:
            PolicyError: the budget does not allow it.
        """
        classes = len(party.agreement.labels.classes)
        ledger = PrivacyLedger(party.state, party.entropy)
        how = Mechanism("response", epsilon=plan.epsilon)
        self._kept = Kept(party.state, LABELS, f"{how} {classes}".encode())
        held = [b"%d" % label for label in labels.tolist()]
        self._rows = Named(ledger.tags(ids), ledger.prints(held))
        noise = keystream(party, b"", LABELS)

        def allow(spent: Spent) -> None:
            if plan.budget is not None and spent.epsilon > plan.budget:
                raise _over(at_most(spent.epsilon), plan.budget)

        def release(new: Index) -> Tensor:
            return randomised_response(labels[new], classes, plan.epsilon, noise)[:, None]

        charge = partial(_charge, ledger, how, self._rows, allow)
        self.values = self._kept.once(self._rows, charge, release)[:, 0]  # [rows]
        self.spent = ledger.spent(self._rows.tags, how.kind)

    def forget(self, rows: Index) -> None:
        """Remove the flipped labels of ``rows``; the ledger goes on knowing of them."""
        self._kept.forget([self._rows.tags[row] for row in rows.tolist()])

    def remains(self, rows: Index) -> bool:
        """Whether a flipped label of ``rows`` is still kept."""
        return self._kept.holds([self._rows.tags[row] for row in rows.tolist()])


def _charge(
    ledger: PrivacyLedger,
    how: Mechanism,
    rows: Named,
    allow: Callable[[Spent], None],
    new: Index,
) -> None:
    tags = [rows.tags[at] for at in new.tolist()]
    ledger.charge(tags, how, np.ones(len(tags), np.int64), allow)


def _within(plan: EmbedOnce, spent: Spent) -> None:
    epsilon = epsilon_of(spent.square, plan.relation, plan.delta)
    if plan.budget is not None and epsilon > plan.budget:
        raise _over("without bound" if math.isinf(epsilon) else at_most(epsilon), plan.budget)


def _over(spent: str, budget: float) -> PolicyError:
    return PolicyError(
        f"privacy: ε would be {spent}, and the budget is {budget:g}",
        "the ledger outlives a run; add noise, or agree on a larger budget",
    )


def _refuse(party: Party, plan: EmbedOnce, frozen: Frozen) -> None:
    count = len(frozen.ids)
    if plan.delta * count >= 1:
        raise PolicyError(
            f"privacy.embed_once.delta = {plan.delta:g} is not below 1 / {count}, the common rows",
            f"choose less than {1 / count:.2g}: with δ that large one row may be shown openly",
        )
    found = mixes_rows(frozen.network, tuple(frozen.inputs.shape[1:]), frozen.inputs.dtype)
    if found:
        raise PolicyError(
            f"the bottom of {party.name} has {found}: no row has privacy of its own there",
            "GroupNorm or LayerNorm in place of BatchNorm; each row by itself",
        )


def _settings(how: Mechanism, network: nn.Module) -> bytes:
    """What a release depends on besides the row."""
    digest = sha256(repr(how).encode())
    for name, parameter in network.state_dict().items():
        digest.update(name.encode() + parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.digest()
