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

OTHER, OTHER_CONTEXT = "no ciphertext of the agreed parameters", "the context has other parameters"


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
        (lambda _: b"", "0 ciphertexts, expected 1"),
        (lambda _: bytes(4), "a ciphertext has 0 bytes"),
        (lambda _: b"\xff\xff\xff\xff", "a ciphertext has 4294967295 bytes"),
        (lambda _: b"\1", "a truncated ciphertext"),
        (lambda good: good[:-1], "a truncated ciphertext"),
        (lambda good: good[: len(good) // 2], "a truncated ciphertext"),
        (lambda good: ckks.join_ciphertexts([good[4:-50]]), OTHER),
        (lambda good: ckks.join_ciphertexts([b"noise" * 40]), OTHER),
        (lambda good: good + good, "2 ciphertexts, expected 1"),
        (lambda _: cipher(context(8192, (60, 50))), OTHER),
        (lambda _: cipher(context(8192, (50, 50, 60))), "a ciphertext has 2"),
        (lambda _: cipher(context(4096, (54, 54)), size=9), "no ciphertext of the agreed par"),
        (
            lambda _: cipher(ckks.load_public_context(public()), scale=2.0**23),
            "has the shape (2, 1, 8192, ",
        ),
        (
            lambda _: cipher(ckks.load_public_context(public()), size=9),
            "a ciphertext has 9 numbers",
        ),
        (lambda _: ckks.join_ciphertexts([public()]), "a ciphertext has 2"),
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
    with pytest.raises(CkksError, match="another one, or the sum was changed"):
        ckks.decrypt(ckks.load_secret_context(ours.secret), said, 1)


def with_secret() -> bytes:
    return context().serialize(save_public_key=True, save_secret_key=True)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda: b"", "the context has 0 bytes"),
        (lambda: public()[:-9], "no context of CKKS"),
        (lambda: b"noise" * 9, "no context of CKKS"),
        (lambda: bytes(2**20), "the context has 1048576 bytes"),
        (lambda: ckks.make_keys().secret, "the context has a secret key, and must have none"),
        (with_secret, "the context has"),
        (lambda: ckks._serialise(context()), "the context has no public key"),
        (lambda: ckks._serialise(context(8192, (60, 50)), public=True), OTHER_CONTEXT),
        (lambda: ckks._serialise(context(4096, (54, 54)), public=True), OTHER_CONTEXT),
    ],
)  # fmt: skip
def test_what_is_no_public_key_of_the_agreed_parameters_is_refused(data, told: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CkksError, match=told):
        CkksServer(data(), 1)


def test_a_public_context_is_no_secret_one() -> None:
    with pytest.raises(CkksError, match="the context has no secret key"):
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
