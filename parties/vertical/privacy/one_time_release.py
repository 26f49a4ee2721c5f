"""One-time releases: embeddings of a passive party, and labels of the active party."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from configs.privacy import EmbedOnce, LabelDp
from models.independence import find_row_mixing
from models.noise import gaussian_mechanism, randomised_response
from parties.common.device import embed
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.report.quantities import format_epsilon
from parties.vertical.engine.party import VerticalParty
from parties.vertical.privacy.accounting import epsilon_of, spent_words
from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger, PrivacySpending
from parties.vertical.privacy.release_cache import (
    ReleaseCache,
    TaggedRows,
    erase_marked_values,
)
from parties.vertical.privacy.visit_noise import noise_keystream

EMBEDDINGS, LABELS = "embeddings", "labels"  # files of the released values


@dataclass(frozen=True, slots=True)
class FrozenBottom:
    """An untrained bottom model, and the rows whose embeddings it computes for the release."""

    network: nn.Module  # the bottom model
    inputs: Tensor  # [rows, ...], the features of the rows
    ids: Sequence[bytes]  # the IDs of the rows


class OneTimeEmbeddings:
    """A passive party's embeddings with clipping and noise; every request gets the same bytes.

    Attributes:
        values: [rows, width], the embeddings.
        spent: the privacy spending after the release.
    """

    def __init__(
        self, party: VerticalParty, plan: EmbedOnce, session: bytes, frozen: FrozenBottom
    ) -> None:
        """Release the rows that were not released before; record them in the ledger first.

        Rows whose features or settings changed are released again; a warning gives the new ε.

        Raises:
            PolicyError: δ is too large for the number of rows, the network mixes rows, or the
                budget is exceeded.
        """
        _refuse(party, plan, frozen)
        ledger = PrivacyLedger(party.state, party.entropy)
        mechanism = Mechanism("once", sigma=plan.noise_multiplier * plan.clip, clip=plan.clip)
        self._cache = ReleaseCache(party.state, EMBEDDINGS, _settings(mechanism, frozen.network))
        contents = [row.numpy().tobytes() for row in frozen.inputs]
        self._rows = TaggedRows(ledger.tags(frozen.ids), ledger.digests(contents))
        warn = partial(_warn_of_new_release, party, EMBEDDINGS, plan.budget, partial(_total, plan))
        charge = partial(_charge, ledger, mechanism, self._rows, partial(_within, plan), warn)
        noise, limit = noise_keystream(party, session, EMBEDDINGS), party.agreement.limits.magnitude

        @torch.no_grad()
        def release(rows: Index) -> Tensor:
            embedding = embed(frozen.network, frozen.inputs[rows])
            noised = gaussian_mechanism(embedding, plan.clip, mechanism.sigma, noise)
            return torch.clamp(noised, -limit, limit)

        self.values = self._cache.release_once(self._rows, charge, release)  # [rows, width]
        self.spent = ledger.spent(self._rows.tags, mechanism.kind)

    def forget(self, rows: Index) -> None:
        """Mark released embeddings of ``rows``, [rows], to be erased, and do not use them again."""
        self._cache.forget([self._rows.tags[row] for row in rows.tolist()])
        self.values[rows] = 0

    def residues(self, rows: Index) -> bool:
        """Whether released embeddings of ``rows``, [rows], are still stored."""
        return self._cache.contains([self._rows.tags[row] for row in rows.tolist()])


class OneTimeLabels:
    """Labels for training: flipped at random once, and the same in every run in this folder.

    Attributes:
        values: [rows], the labels.
        spent: the privacy spending after the flips.
    """

    def __init__(
        self, party: VerticalParty, plan: LabelDp, ids: Sequence[bytes], labels: Tensor
    ) -> None:
        """Flip ``labels``, [rows], that were not flipped before; record them in the ledger first.

        Raises:
            PolicyError: the budget is exceeded.
        """
        classes = len(party.agreement.labels.classes)
        ledger = PrivacyLedger(party.state, party.entropy)
        mechanism = Mechanism("response", epsilon=plan.epsilon)
        self._cache = ReleaseCache(party.state, LABELS, f"{mechanism} {classes}".encode())
        contents = [b"%d" % label for label in labels.tolist()]
        self._rows = TaggedRows(ledger.tags(ids), ledger.digests(contents))
        noise = noise_keystream(party, b"", LABELS)

        def allow(spent: PrivacySpending) -> None:
            if plan.budget is not None and spent.epsilon > plan.budget:
                raise _over(format_epsilon(spent.epsilon), plan.budget)

        def release(new: Index) -> Tensor:
            return randomised_response(labels[new], classes, plan.epsilon, noise)[:, None]

        total = attrgetter("epsilon")
        warn = partial(_warn_of_new_release, party, LABELS, plan.budget, total)
        charge = partial(_charge, ledger, mechanism, self._rows, allow, warn)
        self.values = self._cache.release_once(self._rows, charge, release)[:, 0]  # [rows]
        self.spent = ledger.spent(self._rows.tags, mechanism.kind)

    def forget(self, rows: Index) -> None:
        """Mark the flipped labels of ``rows``, [rows], to be erased."""
        self._cache.forget([self._rows.tags[row] for row in rows.tolist()])

    def residues(self, rows: Index) -> bool:
        """Whether flipped labels of ``rows``, [rows], are still stored."""
        return self._cache.contains([self._rows.tags[row] for row in rows.tolist()])


def erase_forgotten_releases(state: Path) -> None:
    """Erase the released values of all rows that are marked as forgotten.

    Call this after a checkpoint or a version without these rows is written: a start from an earlier
    one would release the rows again, and charge this to the ledger.

    Args:
        state: the party's folder.

    Raises:
        StorageError: a file cannot be read or written.
        IntegrityError: a file is damaged.
    """
    for name in (EMBEDDINGS, LABELS):
        erase_marked_values(state, name)


def _charge(
    ledger: PrivacyLedger,
    mechanism: Mechanism,
    rows: TaggedRows,
    allow: Callable[[PrivacySpending], None],
    warn: Callable[[int, PrivacySpending], None],
    new: Index,
) -> None:
    """Record releases of ``new``, [new_rows]; call ``warn`` if rows were released before."""
    tags = [rows.tags[index] for index in new.tolist()]
    again = ledger.released_before(tags, mechanism.kind)
    ledger.charge(tags, mechanism, np.ones(len(tags), np.int64), allow)
    if again:
        warn(again, ledger.spent(tags, mechanism.kind))


def _warn_of_new_release(
    party: VerticalParty,
    values: str,
    budget: float | None,
    total: Callable[[PrivacySpending], float],
    count: int,
    spent: PrivacySpending,
) -> None:
    """Warn that ``values`` of ``count`` rows are released again; ``total`` gives the spent ε."""
    party.progress.warn(
        f"privacy: the {values} of {count} rows were released before and are released again: their "
        "data or the settings changed, or the first release is not stored any more; of these rows, "
        f"the largest {spent_words(total(spent), budget)}"
    )


def _total(plan: EmbedOnce, spent: PrivacySpending) -> float:
    """ε of all releases of a row."""
    return epsilon_of(spent.square, plan.relation, plan.delta)


def _within(plan: EmbedOnce, spent: PrivacySpending) -> None:
    epsilon = _total(plan, spent)
    if plan.budget is not None and epsilon > plan.budget:
        text = "without bound" if math.isinf(epsilon) else format_epsilon(epsilon)
        raise _over(text, plan.budget)


def _over(spent: str, budget: float) -> PolicyError:
    return PolicyError(
        f"privacy: ε would be {spent}, but the budget is {budget:g}",
        "add noise or agree on a larger budget; the ledger also counts earlier runs in this folder",
    )


def _refuse(party: VerticalParty, plan: EmbedOnce, frozen: FrozenBottom) -> None:
    count = len(frozen.ids)
    if plan.delta * count >= 1:
        raise PolicyError(
            f"privacy.embed_once.delta = {plan.delta:g} is not below 1 / {count} = 1 / (number of "
            "common rows)",
            f"set a value below {1 / count:.2g}, because a larger δ allows one row to be published "
            "in full",
        )
    problem = find_row_mixing(frozen.network, tuple(frozen.inputs.shape[1:]), frozen.inputs.dtype)
    if problem:
        raise PolicyError(
            f"the bottom model of {party.name} has {problem}, so embeddings depend on other rows",
            "use GroupNorm or LayerNorm in place of BatchNorm",
        )


def _settings(mechanism: Mechanism, network: nn.Module) -> bytes:
    """A digest of everything but the row that determines a release."""
    digest = sha256(repr(mechanism).encode())
    for name, parameter in network.state_dict().items():
        digest.update(name.encode() + parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.digest()
