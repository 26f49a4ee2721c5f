"""Salted SHA-256 commitments to subjects and to models, which stand in a receipt in their place.

A commitment without a salt would not protect an ID: all 10-digit numbers can be hashed in about an
hour. Each commitment therefore has a random salt of its own. Who knows the salt can show that the
commitment belongs to the ID; when the salt is deleted, nobody can.
"""

import hashlib
import unicodedata
from collections.abc import Sequence

from unlearning.receipts.errors import ReceiptError

SALT_BYTES = 32
_SUBJECT = b"vfl/subject/v1"
_MODEL = b"vfl/model/v1"


def canonical_id(columns: Sequence[str]) -> bytes:
    """Return the bytes of an ID in its normal form, as the intersection uses them.

    The normal form of a column is NFKC without surrounding white space, in UTF-8. An ID of several
    columns is their normal forms, each after its length in four big-endian bytes.

    Raises:
        ReceiptError: there is no column, or a column is empty or not Unicode.
    """
    try:
        parts = [unicodedata.normalize("NFKC", each).strip().encode() for each in columns]
    except UnicodeEncodeError:
        raise ReceiptError("the ID is not valid Unicode text") from None
    if not parts or not all(parts):
        raise ReceiptError("the ID is empty", "give the ID as in the list of the request")
    if len(parts) == 1:
        return parts[0]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def subject_commitment(salt: bytes, identity: bytes) -> bytes:
    """Return SHA-256("vfl/subject/v1" ‖ salt ‖ ID): 32 bytes.

    Args:
        salt: 32 random bytes, made for this subject and request alone.
        identity: the ID in its normal form.

    Raises:
        ReceiptError: the salt has another length.
    """
    return _commit(_SUBJECT, salt, identity)


def model_commitment(salt: bytes, digest: bytes) -> bytes:
    """Return SHA-256("vfl/model/v1" ‖ salt ‖ digest) of a party's model: 32 bytes.

    Args:
        salt: 32 random bytes, made for this model and receipt alone.
        digest: SHA-256 of the model's parameters.

    Raises:
        ReceiptError: the salt has another length.
    """
    return _commit(_MODEL, salt, digest)


def _commit(domain: bytes, salt: bytes, content: bytes) -> bytes:
    if len(salt) != SALT_BYTES:
        raise ReceiptError(f"a salt has {len(salt)} bytes, expected {SALT_BYTES}")
    return hashlib.sha256(domain + salt + content).digest()
