"""Secure aggregation by CKKS: exact sums, decryption by key holders, and refusals."""

import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import tenseal
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.horizontal.secure.encryption import ckks
from parties.horizontal.secure.encryption.ckks import MAX_SUM, SCALE, SLOTS, CkksError, Numbers
from parties.horizontal.secure.encryption.client import (
    WIDTH,
    CkksClient,
    SumKey,
    SumTerms,
    ciphertext_count,
)
from parties.horizontal.secure.encryption.server import CkksServer
from parties.horizontal.secure.encryption.tags import PRIME, SumTags

CONTEXT = b"session 1, round 7"
NAMES = tuple(f"client-{number}" for number in range(4))
SIZE = 20


class Sum:
    """Clients and server of one sum; the first two clients hold the secret key."""

    def __init__(self, size: int = SIZE, key_holders: Sequence[str] = NAMES[:2]) -> None:
        terms = SumTerms(NAMES, tuple(key_holders), 3, CONTEXT)
        self.clients = {name: CkksClient(name, terms, os.urandom) for name in NAMES}
        self.sealing = {name: each.sealing for name, each in self.clients.items()}
        self.key = self.clients[NAMES[0]].make_key(self.sealing)
        self.server = CkksServer(self.key.public, ciphertext_count(size))

    def with_distributed_key(self) -> "Sum":
        for name in NAMES[1:]:
            self.clients[name].load_key(self.key)
        return self

    def added(self, vectors: Sequence[Numbers], present: Sequence[str] = NAMES) -> bytes:
        """Return the ciphertexts of the sum, approved by all present members."""
        for name, vector in zip(NAMES, vectors, strict=True):
            if name in present:
                self.server.add(name, self.clients[name].encrypt(vector))
        whole, digest = self.server.total()
        for name in present:
            self.clients[name].approve(present, digest)
        return whole


def numbers(seed: int, size: int = SIZE, maximum: int = 2**30) -> list[Numbers]:
    return list(np.random.default_rng(seed).integers(-maximum, maximum, (len(NAMES), size)))


@settings(max_examples=5)
@given(st.integers(0, 999), st.sampled_from([1, SIZE, WIDTH, WIDTH + 1]), st.data())
def test_sum_is_exact_after_any_drop_outs(seed: int, size: int, data: st.DataObject) -> None:
    run, vectors = Sum(size).with_distributed_key(), numbers(seed, size)
    present = sorted(data.draw(st.sets(st.sampled_from(NAMES), min_size=3)))
    whole = run.added(vectors, present)
    expected = sum(vectors[NAMES.index(name)] for name in present)
    for name in {*present} & {*NAMES[:2]}:
        np.testing.assert_array_equal(run.clients[name].decrypt_sum(whole, present), expected)


def test_sum_at_the_limits_of_its_range_is_exact() -> None:
    run, maximum = Sum().with_distributed_key(), int(MAX_SUM) // 4
    vectors = [np.array([maximum, -maximum, 0, 1] * 5)] * 4
    whole = run.added(vectors)
    assert (
        run.clients[NAMES[0]].decrypt_sum(whole, NAMES).tolist()
        == [4 * maximum, -4 * maximum, 0, 4] * 5
    )


def test_noise_of_fifty_ciphertexts_is_below_rounding() -> None:
    keys = ckks.make_keys()
    server = CkksServer(keys.public, 1)
    rows = np.random.default_rng(0).integers(-(2**28), 2**28, (1, SLOTS))
    public, secret = ckks.load_public_context(keys.public), ckks.load_secret_context(keys.secret)
    for _ in range(50):
        server.add("a", ckks.encrypt(public, rows))
    (total,) = ckks.load_ciphertexts(secret, server.total()[0], 1)
    assert 0 < np.abs(np.array(total.decrypt()) - 50 * rows[0]).max() < 0.05


def test_ciphertext_reveals_nothing_without_the_secret_key() -> None:
    vector = np.random.default_rng(0).integers(-(2**30), 2**30, (1, SLOTS))
    ours, other = ckks.make_keys(), ckks.make_keys()
    encrypted = ckks.encrypt(ckks.load_public_context(ours.public), vector)
    for keys, low, high in ((ours, 0.99, 1.01), (other, -0.1, 0.1)):
        (loaded,) = ckks.load_ciphertexts(ckks.load_secret_context(keys.secret), encrypted, 1)
        assert low < np.corrcoef(np.array(loaded.decrypt()), vector[0])[0, 1] < high
    with pytest.raises(ValueError, match="secret_key"):
        ckks.load_ciphertexts(ckks.load_public_context(ours.public), encrypted, 1)[0].decrypt()


def test_only_key_holders_get_the_secret_key() -> None:
    run = Sum().with_distributed_key()
    whole = run.added(numbers(0))
    assert run.clients[NAMES[0]].decrypt_sum(whole, NAMES).tolist() == sum(numbers(0)).tolist()
    with pytest.raises(CkksError, match="client-3 cannot decrypt the sum: it has no secret key"):
        run.clients[NAMES[3]].decrypt_sum(whole, NAMES)
    assert len(run.key.sealed[NAMES[3]]) < len(run.key.sealed[NAMES[1]])


def test_key_holder_decrypts_once_and_only_with_enough_approvals() -> None:
    run = Sum().with_distributed_key()
    whole, key_holder = run.added(numbers(0)), run.clients[NAMES[0]]
    with pytest.raises(CkksError, match="2 members approved the sum, expected at least 3"):
        key_holder.decrypt_sum(whole, NAMES[:2])
    key_holder.decrypt_sum(whole, NAMES[1:])
    with pytest.raises(CkksError, match="or has not approved this sum"):
        key_holder.decrypt_sum(whole, NAMES)


def test_invalid_and_second_approvals_are_refused() -> None:
    run = Sum().with_distributed_key()
    client = run.clients[NAMES[0]]
    client.encrypt(numbers(0)[0])
    with pytest.raises(CkksError, match="2 different members, expected at least 3"):
        client.approve(NAMES[:2], b"digest")
    with pytest.raises(CkksError, match="2 different members, expected at least 3"):
        client.approve([NAMES[0], NAMES[1], NAMES[1]], b"digest")
    with pytest.raises(CkksError, match="lacks this member, or names a client that is not"):
        client.approve(NAMES[1:], b"digest")
    with pytest.raises(CkksError, match="lacks this member, or names a client that is not"):
        client.approve([*NAMES, "stranger"], b"digest")
    client.approve(NAMES, b"digest")
    with pytest.raises(CkksError, match="a second approval could reveal"):
        client.approve(NAMES[:3], b"digest")


def test_second_update_in_a_sum_is_refused() -> None:
    client = Sum().with_distributed_key().clients[NAMES[0]]
    client.encrypt(numbers(0)[0])
    with pytest.raises(CkksError, match="the update was already encrypted"):
        client.encrypt(numbers(0)[0])


def test_sum_that_was_not_approved_is_not_decrypted() -> None:
    run = Sum().with_distributed_key()
    whole = run.added(numbers(0))
    with pytest.raises(CkksError, match="differ from the ciphertexts that the members approved"):
        run.clients[NAMES[0]].decrypt_sum(whole[:-1] + b"\0", NAMES)


Ciphertexts = dict[str, bytes]


def one_client_only(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    server.add("a", ciphertexts[NAMES[1]])


def one_client_four_times(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    for _ in range(4):
        server.add("a", ciphertexts[NAMES[1]])


def one_client_missing(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    for name in NAMES[:3]:
        server.add(name, ciphertexts[name])


def swapped_ciphertexts(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    for name in NAMES:
        first, second = ckks._split(ciphertexts[name])
        server.add(name, ckks.join_ciphertexts([second, first]))


def shifted_sum(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    for name in NAMES:
        server.add(name, ciphertexts[name])
    one = [0.0] * SLOTS
    one[9] = 1.0
    server._total[0].add_(tenseal.ckks_vector(server._context, one, SCALE))


def magnified_part(server: CkksServer, ciphertexts: Ciphertexts) -> None:
    """Add the part of one client 2^20 times to reveal it."""
    for name in NAMES:
        server.add(name, ciphertexts[name])
    part = ckks.load_ciphertexts(server._context, ciphertexts[NAMES[1]], 2)
    for _ in range(20):
        part = [each.add_(each.copy()) for each in part]
    server._total = [a.add_(b) for a, b in zip(server._total, part, strict=True)]


@pytest.mark.parametrize(
    ("cheat", "message"),
    [
        (one_client_only, "the authentication tags do not match"),
        (one_client_four_times, "the authentication tags do not match"),
        (one_client_missing, "the authentication tags do not match"),
        (swapped_ciphertexts, "the authentication tags do not match"),
        (shifted_sum, "the authentication tags do not match"),
        (magnified_part, "the key is wrong, or the sum was changed"),
    ],
)
def test_sum_of_other_members_is_refused(cheat, message: str) -> None:  # type: ignore[no-untyped-def]
    run, vectors = Sum(2 * WIDTH).with_distributed_key(), numbers(0, 2 * WIDTH)
    ciphertexts = {n: run.clients[n].encrypt(v) for n, v in zip(NAMES, vectors, strict=True)}
    cheat(run.server, ciphertexts)
    whole, digest = run.server.total()
    run.clients[NAMES[0]].approve(NAMES, digest)
    with pytest.raises(CkksError, match=message):
        run.clients[NAMES[0]].decrypt_sum(whole, NAMES)


def test_wrong_tags_are_refused() -> None:
    """One member computes its tags with another key."""
    run = Sum().with_distributed_key()
    run.clients[NAMES[2]]._tags = SumTags(b"another key of t")
    with pytest.raises(CkksError, match="authentication tags do not match"):
        run.clients[NAMES[0]].decrypt_sum(run.added(numbers(0)), NAMES)


@pytest.mark.parametrize("bit", range(2_000, 1_000_000, 99_991))
def test_flipped_bit_of_a_sum_is_refused(bit: int) -> None:
    run = Sum().with_distributed_key()
    for name, vector in zip(NAMES, numbers(0), strict=True):
        run.server.add(name, run.clients[name].encrypt(vector))
    whole = bytearray(run.server.total()[0])
    whole[bit // 8] ^= 1 << bit % 8
    run.clients[NAMES[0]].approve(NAMES, sha256(whole).digest())
    with pytest.raises(CkksError):
        run.clients[NAMES[0]].decrypt_sum(bytes(whole), NAMES)


def test_key_changed_in_transit_is_refused() -> None:
    run = Sum()
    key = run.key
    changed: list[tuple[str, SumKey]] = [
        (
            "key of this sum was changed after",
            replace(key, sealed={NAMES[1]: key.sealed[NAMES[2]]}),
        ),
        ("key of this sum was changed after", replace(key, sealed={})),
        ("key of this sum was changed after", replace(key, secret=key.secret[:-1])),
        ("key of this sum was changed after", replace(key, sealing=run.sealing[NAMES[2]])),
        ("is not a valid X25519 key", replace(key, sealing=bytes(32))),
        ("the CKKS context contains a secret key", replace(key, public=ckks.make_keys().secret)),
    ]
    for message, each in changed:
        with pytest.raises(CkksError, match=message):
            run.clients[NAMES[1]].load_key(each)
    run.clients[NAMES[1]].load_key(key)
    with pytest.raises(CkksError, match="a second key"):
        run.clients[NAMES[1]].load_key(key)


def test_only_the_first_key_holder_makes_one_key() -> None:
    run = Sum()
    with pytest.raises(CkksError, match="client-1 cannot make the key of this sum"):
        run.clients[NAMES[1]].make_key(run.sealing)
    with pytest.raises(CkksError, match="or client-0 has already made it"):
        run.clients[NAMES[0]].make_key(run.sealing)


def test_key_needs_the_public_keys_of_all_members() -> None:
    terms = SumTerms(NAMES, NAMES, 3, CONTEXT)
    maker = CkksClient(NAMES[0], terms, os.urandom)
    others = {name: CkksClient(name, terms, os.urandom).sealing for name in NAMES}
    with pytest.raises(CkksError, match=r"or the public key of client-0 was changed"):
        maker.make_key(others)
    with pytest.raises(CkksError, match="the public keys do not belong to exactly the members"):
        maker.make_key({NAMES[0]: maker.sealing})


def test_one_key_holder_or_a_minority_threshold_is_refused() -> None:
    with pytest.raises(CkksError, match="got 1 key holders, expected at least two"):
        SumTerms(NAMES, NAMES[:1], 3, CONTEXT)
    with pytest.raises(CkksError, match="the threshold is 2 of 4 members; expected more"):
        SumTerms(NAMES, NAMES, 2, CONTEXT)


def test_tags_by_hand() -> None:
    tags, rows = SumTags(b"k" * 16), np.array([[3, -2]])
    nothing, one = np.zeros((1, 2), np.int64), np.eye(2, dtype=np.int64)
    own = tags.tags_of("a", nothing)
    weights = [(tags.tags_of("a", one[[place]]) - own) % PRIME for place in (0, 1)]
    assert tags.tags_of("a", rows) == (own + 3 * weights[0] - 2 * weights[1]) % PRIME
    assert tags.verify(["a", "b"], 2 * rows, tags.tags_of("a", rows) + tags.tags_of("b", rows))
    assert not tags.verify(["a"], 2 * rows, tags.tags_of("a", rows) + tags.tags_of("b", rows))
    assert not tags.verify(
        ["a", "b"], 2 * rows + 1, tags.tags_of("a", rows) + tags.tags_of("b", rows)
    )


def test_modulus_of_the_tags_is_prime() -> None:
    assert PRIME < 2**24
    assert all(PRIME % each for each in range(2, 4097))
