"""Order of the common rows: the secret of the order, and the order of given IDs."""

from collections.abc import Sequence

import numpy as np

from configs.agreement import VerticalAgreement
from parties.common.shared_randomness import Index, derive_key
from psi.alignment import common_order, order_words
from psi.ids import NO_FINGERPRINTS, fingerprint_ids


def order_secret(agreement: VerticalAgreement) -> bytes:
    """The secret, 32 bytes, of the fingerprints of IDs and of the order of the common rows.

    All parties derive the secret from the seed and the name of the federation. Therefore one config
    gives one order in every session, and the order does not depend on other settings.
    """
    return derive_key(agreement.seed, "order", agreement.federation)


def order_ids(agreement: VerticalAgreement, ids: Sequence[bytes]) -> Index:
    """The positions of the common ``ids`` [n] in the common order: [n]."""
    secret = order_secret(agreement)
    prints = np.concatenate([NO_FINGERPRINTS, *fingerprint_ids(ids, secret)])
    return common_order(lambda part: order_words(prints, secret, part))
