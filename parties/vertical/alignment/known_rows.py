"""Rows that are known to be common when a training goes on from a kept version of the model.

The common rows of the version are still common if every party holds all of them. Then they do not
cross the intersection, except for one of them, so that the result is not empty. Otherwise all rows
cross.

Whether every party holds all rows of the version is found by an intersection of two IDs at each
party: one that is equal at all parties, and a digest of the rows of the version, or random bytes at
a party that lacks one of them. So no party learns which party lacks rows, or which rows, beyond the
result of the full intersection.
"""

from dataclasses import replace

import numpy as np

from parties.data.holding import Holding
from parties.data.sources.arrays import Mask
from parties.vertical.alignment.common_rows import Alignment
from parties.vertical.alignment.row_order import order_secret
from parties.vertical.engine.party import VerticalParty
from psi.domain import labelled_digest

DIGEST_BYTES = 32
IDS = 2  # of each party in the comparison of versions
FOLDER = "version"  # in the party's folder; an intersection of two IDs writes no file


def held_rows(party: VerticalParty) -> Mask:
    """For each own row, whether the version that ``party`` goes on from has it: [rows]."""
    ids = frozenset() if party.base is None else party.base.ids
    return np.fromiter((each in ids for each in party.holding.ids), np.bool_, len(party.holding))


def version_party(party: VerticalParty, held: Mask) -> VerticalParty:
    """A copy of ``party`` whose IDs say whether it holds all rows of the version.

    The first ID is equal at all parties. The second one is a digest of the version's rows; it is
    random if the party lacks one of them, or has no version. In the copy, the intersection is
    hardened, and every party declares two rows. All parties make this change of the agreement,
    after the handshake has compared the unchanged agreements.

    Args:
        party: the party.
        held: [rows], the result of ``held_rows``.
    """
    agreement, base = party.agreement, party.base
    secret = order_secret(agreement)
    if base is None or np.count_nonzero(held) != len(base.ids):
        digest = party.entropy(DIGEST_BYTES)
    else:
        digest = labelled_digest("version", secret, *sorted(base.ids))
    psi = {"minimum": 1, "security": "hardened", "queries": IDS}
    parties = {
        name: each.model_copy(update={"declared_rows": IDS})
        for name, each in agreement.parties.items()
    }
    changes = {"psi": agreement.psi.model_copy(update=psi), "parties": parties}
    return replace(
        party,
        agreement=agreement.model_copy(update=changes),
        holding=Holding(
            ids=[labelled_digest("every version", secret), digest],
            in_test=np.zeros(IDS, np.bool_),
        ),
        # Worker processes would take longer to start than two IDs take.
        settings=party.settings.model_copy(update={"threads": 1}),
        state=party.state / FOLDER,
    )


def known_rows(party: VerticalParty, held: Mask, compared: Alignment) -> Mask | None:
    """The own rows that are known to be common and do not cross the intersection: [rows].

    The row of the version with the smallest ID crosses. The function also notes which rows cross.

    Args:
        party: the party.
        held: [rows], the result of ``held_rows``.
        compared: the intersection of all parties' ``version_party``.

    Returns:
        The mask; None if all rows cross.
    """
    base = party.base
    if base is None:
        party.progress.note("all rows cross the intersection: this party has no version")
        return None
    if len(compared) < IDS:
        party.progress.note(
            f"all rows cross the intersection: not every party holds all rows of {base}"
        )
        return None
    party.progress.note(
        f"every party holds the {len(base.ids)} rows of {base}: only other rows cross the "
        "intersection"
    )
    first = min(base.ids, default=b"")
    return held & np.fromiter((each != first for each in party.holding.ids), np.bool_, len(held))
