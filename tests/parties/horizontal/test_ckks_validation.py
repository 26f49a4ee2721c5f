"""Invalid CKKS keys and ciphertexts are refused before TenSEAL uses them."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
import tenseal

from parties.horizontal.secure.encryption import ckks
from parties.horizontal.secure.encryption.ckks import MODULI, SCALE, SLOTS, CkksError
from parties.horizontal.secure.encryption.server import CkksServer

OTHER_CIPHERTEXT, OTHER_CONTEXT = (
    "not a ciphertext with the agreed parameters",
    "does not have the agreed parameters",
)


def context(degree: int = 8192, moduli: Sequence[int] = MODULI) -> tenseal.Context:
    return tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=list(moduli), n_threads=1
    )


@cache
def public() -> bytes:
    return ckks.make_keys().public


def ciphertext(within: tenseal.Context, scale: float = SCALE, size: int = SLOTS) -> bytes:
    return ckks.join_ciphertexts([tenseal.ckks_vector(within, [1.0] * size, scale).serialize()])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: b"", "0 ciphertexts, expected 1"),
        (lambda _: bytes(4), "a ciphertext has 0 bytes"),
        (lambda _: b"\xff\xff\xff\xff", "a ciphertext has 4294967295 bytes"),
        (lambda _: b"\1", "a ciphertext is truncated"),
        (lambda good: good[:-1], "a ciphertext is truncated"),
        (lambda good: good[: len(good) // 2], "a ciphertext is truncated"),
        (lambda good: ckks.join_ciphertexts([good[4:-50]]), OTHER_CIPHERTEXT),
        (lambda good: ckks.join_ciphertexts([b"noise" * 40]), OTHER_CIPHERTEXT),
        (lambda good: good + good, "2 ciphertexts, expected 1"),
        (lambda _: ciphertext(context(8192, (60, 50))), OTHER_CIPHERTEXT),
        (lambda _: ciphertext(context(8192, (50, 50, 60))), "a ciphertext has 2"),
        (
            lambda _: ciphertext(context(4096, (54, 54)), size=9),
            "not a ciphertext with the agreed par",
        ),
        (
            lambda _: ciphertext(ckks.load_public_context(public()), scale=2.0**23),
            "has the parameters (2, 1, 8192, ",
        ),
        (
            lambda _: ciphertext(ckks.load_public_context(public()), size=9),
            "a ciphertext has 9 numbers",
        ),
        (lambda _: ckks.join_ciphertexts([public()]), "a ciphertext has 2"),
    ],
)  # fmt: skip
def test_invalid_ciphertext_is_refused(  # type: ignore[no-untyped-def]
    make, message: str
) -> None:
    server = CkksServer(public(), 1)
    good = ciphertext(ckks.load_public_context(public()))
    server.add("honest", good)
    before = server.total()
    with pytest.raises(CkksError) as error:
        server.add("bad", make(good))
    assert message in str(error.value)
    assert (server.total(), server.present) == (before, ["honest"])


def test_ciphertext_of_another_key_is_refused_at_decryption() -> None:
    ours, other = ckks.make_keys(), ckks.make_keys()
    rows = np.zeros((1, SLOTS), np.int64)
    encrypted = ckks.encrypt(ckks.load_public_context(other.public), rows)
    with pytest.raises(CkksError, match="the key is wrong, or the sum was changed"):
        ckks.decrypt(ckks.load_secret_context(ours.secret), encrypted, 1)


def with_secret() -> bytes:
    return context().serialize(save_public_key=True, save_secret_key=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: b"", "the CKKS context has 0 bytes"),
        (lambda: public()[:-9], "not a CKKS context"),
        (lambda: b"noise" * 9, "not a CKKS context"),
        (lambda: bytes(2**20), "the CKKS context has 1048576 bytes"),
        (lambda: ckks.make_keys().secret, "the CKKS context contains a secret key"),
        (with_secret, "the CKKS context has"),
        (lambda: ckks._serialise(context()), "the CKKS context contains no public key"),
        (lambda: ckks._serialise(context(8192, (60, 50)), public=True), OTHER_CONTEXT),
        (lambda: ckks._serialise(context(4096, (54, 54)), public=True), OTHER_CONTEXT),
    ],
)  # fmt: skip
def test_invalid_public_key_is_refused(data, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CkksError, match=message):
        CkksServer(data(), 1)


def test_public_context_is_refused_as_secret_context() -> None:
    with pytest.raises(CkksError, match="the CKKS context contains no secret key"):
        ckks.load_secret_context(public())


def damaged(data: bytes, seed: int) -> bytes:
    """Return the data with a flipped bit, a missing piece or a repeated piece."""
    draw = np.random.default_rng(seed)
    start, end = sorted(draw.integers(0, min(len(data), 400 if seed % 2 else 2**31), 2))
    match seed % 3:
        case 0:
            one = bytes([data[start] ^ 1 << int(draw.integers(8))])
            return data[:start] + one + data[start + 1 :]
        case 1:
            return data[:start] + data[end:]
        case _:
            return data[:end] + data[start:]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_key_or_ciphertext_raises_only_ckks_error(seed: int) -> None:
    """Data that is still valid is loaded; tags and signatures detect it later."""
    keys = ckks.make_keys()
    encrypted = ckks.encrypt(ckks.load_public_context(keys.public), np.zeros((1, SLOTS), np.int64))
    with suppress(CkksError):
        ckks.load_public_context(damaged(keys.public, seed))
    with suppress(CkksError):
        ckks.decrypt(ckks.load_secret_context(keys.secret), damaged(encrypted, seed), 1)
    with suppress(CkksError):
        ckks.decrypt(ckks.load_secret_context(damaged(keys.secret, seed)), encrypted, 1)
