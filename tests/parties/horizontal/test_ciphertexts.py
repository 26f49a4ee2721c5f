"""Keys and ciphertexts at the door: what TenSEAL would take, and what we refuse."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
import tenseal

from parties.horizontal.secure.encryption import ckks
from parties.horizontal.secure.encryption.ckks import MODULI, SCALE, SLOTS, CkksError
from parties.horizontal.secure.encryption.server import CkksServer


def context(degree: int = 8192, moduli: Sequence[int] = MODULI) -> tenseal.Context:
    return tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=list(moduli), n_threads=1
    )


@cache
def public() -> bytes:
    return ckks.make_keys().public


def cipher(within: tenseal.Context, scale: float = SCALE, size: int = SLOTS) -> bytes:
    return ckks.join_ciphertexts([tenseal.ckks_vector(within, [1.0] * size, scale).serialize()])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: b"", "0 ciphertexts; there must be 1"),
        (lambda _: bytes(4), "a ciphertext of 0 bytes"),
        (lambda _: b"\xff\xff\xff\xff", "a ciphertext of 4294967295 bytes"),
        (lambda _: b"\1", "a truncated ciphertext"),
        (lambda good: good[:-1], "a truncated ciphertext"),
        (lambda good: good[: len(good) // 2], "a truncated ciphertext"),
        (lambda good: ckks.join_ciphertexts([good[4:-50]]), "no ciphertext of the agreed parameters"),
        (lambda good: ckks.join_ciphertexts([b"noise" * 40]), "no ciphertext of the agreed parameters"),
        (lambda good: good + good, "2 ciphertexts; there must be 1"),
        (lambda _: cipher(context(8192, (60, 50))), "no ciphertext of the agreed parameters"),
        (lambda _: cipher(context(8192, (50, 50, 60))), "a ciphertext of 2"),
        (lambda _: cipher(context(4096, (54, 54)), size=9), "no ciphertext of the agreed par"),
        (lambda _: cipher(ckks.load_public_context(public()), scale=2.0**23), "of the shape (2, 1, 8192, "),
        (lambda _: cipher(ckks.load_public_context(public()), size=9), "a ciphertext of 9 numbers"),
        (lambda _: ckks.join_ciphertexts([public()]), "a ciphertext of 2"),
    ],
)  # fmt: skip
def test_what_is_no_ciphertext_of_the_sum_is_refused(make, told: str) -> None:  # type: ignore[no-untyped-def]
    server = CkksServer(public(), 1)
    good = cipher(ckks.load_public_context(public()))
    server.add("honest", good)
    before = server.total()
    with pytest.raises(CkksError) as error:
        server.add("bad", make(good))
    assert told in str(error.value)
    assert (server.total(), server.present) == (before, ["honest"])


def test_a_ciphertext_of_another_key_is_refused_once_it_is_opened() -> None:
    ours, other = ckks.make_keys(), ckks.make_keys()
    rows = np.zeros((1, SLOTS), np.int64)
    said = ckks.encrypt(ckks.load_public_context(other.public), rows)
    with pytest.raises(CkksError, match="another key, or it was changed"):
        ckks.decrypt(ckks.load_secret_context(ours.secret), said, 1)


def with_secret() -> bytes:
    return context().serialize(save_public_key=True, save_secret_key=True)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda: b"", "a context of 0 bytes"),
        (lambda: public()[:-9], "no context of CKKS"),
        (lambda: b"noise" * 9, "no context of CKKS"),
        (lambda: bytes(2**20), "a context of 1048576 bytes"),
        (lambda: ckks.make_keys().secret, "a context with a secret key where none may be"),
        (with_secret, "a context of"),
        (lambda: ckks._said(context()), "a context without a public key"),
        (lambda: ckks._said(context(8192, (60, 50)), public=True), "a context of other parameters"),
        (lambda: ckks._said(context(4096, (54, 54)), public=True), "a context of other parameters"),
    ],
)  # fmt: skip
def test_what_is_no_public_key_of_the_agreed_parameters_is_refused(data, told: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CkksError, match=told):
        CkksServer(data(), 1)


def test_a_public_context_is_no_secret_one() -> None:
    with pytest.raises(CkksError, match="without a secret key where one must be"):
        ckks.load_secret_context(public())


def spoilt(data: bytes, seed: int) -> bytes:
    """A bit flipped, a piece cut out or doubled."""
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
def test_a_spoilt_key_or_ciphertext_ends_in_our_own_words(seed: int) -> None:
    """Or it is taken for another one, which tags and signatures are there for."""
    keys = ckks.make_keys()
    said = ckks.encrypt(ckks.load_public_context(keys.public), np.zeros((1, SLOTS), np.int64))
    with suppress(CkksError):
        ckks.load_public_context(spoilt(keys.public, seed))
    with suppress(CkksError):
        ckks.decrypt(ckks.load_secret_context(keys.secret), spoilt(said, seed), 1)
    with suppress(CkksError):
        ckks.decrypt(ckks.load_secret_context(spoilt(keys.secret, seed)), said, 1)
