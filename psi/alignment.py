"""Alignment: the order of the common rows, and the digest that proves both sides share it."""

import hashlib
import hmac
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from psi.domain import framed
from psi.ids import hashed


def common_order(ids: Sequence[bytes], key: bytes) -> npt.NDArray[np.int64]:
    """The permutation that puts ``ids`` in the order of HMAC-SHA256(key, id).

    Every party computes it by itself; ``ids[order[0]]`` is the first common row.

    Returns:
        [n] int64.
    """
    keyed = [hmac.digest(key, identity, "sha256") for identity in ids]
    return np.array(sorted(range(len(ids)), key=keyed.__getitem__), dtype=np.int64)


def alignment_digest(
    ordered_ids: Sequence[bytes], session: bytes, agreement_digest: bytes
) -> bytes:
    """SHA-256(domain ‖ session ‖ agreement digest ‖ h(x) in common order): 32 bytes.

    Compare it with ``hmac.compare_digest``, keep it in memory only.
    """
    state = hashlib.sha256(framed("alignment", session, agreement_digest))
    state.update(hashed(ordered_ids, session).tobytes())
    return state.digest()
