"""Secure aggregation by CKKS: exact sums, who opens them, and everything that is refused."""

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
    """All sides of one sum; the first two hold the key."""

    def __init__(self, size: int = SIZE, keepers: Sequence[str] = NAMES[:2]) -> None:
        terms = SumTerms(NAMES, tuple(keepers), 3, CONTEXT)
        self.clients = {name: CkksClient(name, terms, os.urandom) for name in NAMES}
        self.sealing = {name: each.sealing for name, each in self.clients.items()}
        self.key = self.clients[NAMES[0]].make_key(self.sealing)
        self.server = CkksServer(self.key.public, ciphertext_count(size))

    def handed_out(self) -> "Sum":
        for name in NAMES[1:]:
            self.clients[name].load_key(self.key)
        return self

    def added(self, vectors: Sequence[Numbers], there: Sequence[str] = NAMES) -> bytes:
        """The ciphertexts of the sum, to which all who are there assented."""
        for name, vector in zip(NAMES, vectors, strict=True):
            if name in there:
                self.server.add(name, self.clients[name].encrypt(vector))
        whole, digest = self.server.total()
        for name in there:
            self.clients[name].approve(there, digest)
        return whole


def numbers(seed: int, size: int = SIZE, most: int = 2**30) -> list[Numbers]:
    return list(np.random.default_rng(seed).integers(-most, most, (len(NAMES), size)))


@settings(max_examples=5)
@given(st.integers(0, 999), st.sampled_from([1, SIZE, WIDTH, WIDTH + 1]), st.data())
def test_the_sum_is_exact_whoever_drops_out(seed: int, size: int, data: st.DataObject) -> None:
    run, vectors = Sum(size).handed_out(), numbers(seed, size)
    there = sorted(data.draw(st.sets(st.sampled_from(NAMES), min_size=3)))
    whole = run.added(vectors, there)
    wanted = sum(vectors[NAMES.index(name)] for name in there)
    for name in {*there} & {*NAMES[:2]}:
        np.testing.assert_array_equal(run.clients[name].decrypt_sum(whole, there), wanted)


def test_a_sum_at_the_ends_of_its_range_is_exact() -> None:
    run, most = Sum().handed_out(), int(MAX_SUM) // 4
    vectors = [np.array([most, -most, 0, 1] * 5)] * 4
    whole = run.added(vectors)
    assert (
        run.clients[NAMES[0]].decrypt_sum(whole, NAMES).tolist() == [4 * most, -4 * most, 0, 4] * 5
    )


def test_the_noise_of_fifty_ciphertexts_is_far_from_a_whole_number() -> None:
    keys = ckks.make_keys()
    server = CkksServer(keys.public, 1)
    rows = np.random.default_rng(0).integers(-(2**28), 2**28, (1, SLOTS))
    outside, within = ckks.load_public_context(keys.public), ckks.load_secret_context(keys.secret)
    for _ in range(50):
        server.add("a", ckks.encrypt(outside, rows))
    (found,) = ckks.load_ciphertexts(within, server.total()[0], 1)
    assert 0 < np.abs(np.array(found.decrypt()) - 50 * rows[0]).max() < 0.05


def test_what_the_server_sees_of_one_client_says_nothing_of_its_vector() -> None:
    vector = np.random.default_rng(0).integers(-(2**30), 2**30, (1, SLOTS))
    ours, other = ckks.make_keys(), ckks.make_keys()
    seen = ckks.encrypt(ckks.load_public_context(ours.public), vector)
    for keys, low, high in ((ours, 0.99, 1.01), (other, -0.1, 0.1)):
        (found,) = ckks.load_ciphertexts(ckks.load_secret_context(keys.secret), seen, 1)
        assert low < np.corrcoef(np.array(found.decrypt()), vector[0])[0, 1] < high
    with pytest.raises(ValueError, match="secret_key"):
        ckks.load_ciphertexts(ckks.load_public_context(ours.public), seen, 1)[0].decrypt()


def test_who_is_no_keeper_gets_no_secret_key() -> None:
    run = Sum().handed_out()
    whole = run.added(numbers(0))
    assert run.clients[NAMES[0]].decrypt_sum(whole, NAMES).tolist() == sum(numbers(0)).tolist()
    with pytest.raises(CkksError, match="client-3 holds no key"):
        run.clients[NAMES[3]].decrypt_sum(whole, NAMES)
    assert len(run.key.sealed[NAMES[3]]) < len(run.key.sealed[NAMES[1]])


def test_a_keeper_opens_once_and_nothing_that_too_few_assented_to() -> None:
    run = Sum().handed_out()
    whole, opener = run.added(numbers(0)), run.clients[NAMES[0]]
    with pytest.raises(CkksError, match="2 members approve, and 3 must approve"):
        opener.decrypt_sum(whole, NAMES[:2])
    opener.decrypt_sum(whole, NAMES[1:])
    with pytest.raises(CkksError, match="holds no key of an approved sum"):
        opener.decrypt_sum(whole, NAMES)


def test_nobody_assents_to_two_sums_nor_to_one_of_few_or_without_itself() -> None:
    run = Sum().handed_out()
    client = run.clients[NAMES[0]]
    client.encrypt(numbers(0)[0])
    with pytest.raises(CkksError, match="2 members are present, and the sum needs 3"):
        client.approve(NAMES[:2], b"digest")
    with pytest.raises(CkksError, match="2 members are present, and the sum needs 3"):
        client.approve([NAMES[0], NAMES[1], NAMES[1]], b"digest")
    with pytest.raises(CkksError, match="a member of another sum, or is without this member"):
        client.approve(NAMES[1:], b"digest")
    with pytest.raises(CkksError, match="a member of another sum, or is without this member"):
        client.approve([*NAMES, "stranger"], b"digest")
    client.approve(NAMES, b"digest")
    with pytest.raises(CkksError, match="a second approval for one sum"):
        client.approve(NAMES[:3], b"digest")


def test_a_client_is_encrypted_once_in_a_sum() -> None:
    client = Sum().handed_out().clients[NAMES[0]]
    client.encrypt(numbers(0)[0])
    with pytest.raises(CkksError, match="the update was sent before"):
        client.encrypt(numbers(0)[0])


def test_another_sum_than_the_one_assented_to_is_not_opened() -> None:
    run = Sum().handed_out()
    whole = run.added(numbers(0))
    with pytest.raises(CkksError, match="not those that the members approved"):
        run.clients[NAMES[0]].decrypt_sum(whole[:-1] + b"\0", NAMES)


Said = dict[str, bytes]


def alone(server: CkksServer, said: Said) -> None:
    server.add("a", said[NAMES[1]])


def four_times(server: CkksServer, said: Said) -> None:
    for _ in range(4):
        server.add("a", said[NAMES[1]])


def one_missing(server: CkksServer, said: Said) -> None:
    for name in NAMES[:3]:
        server.add(name, said[name])


def exchanged(server: CkksServer, said: Said) -> None:
    for name in NAMES:
        first, second = ckks._split(said[name])
        server.add(name, ckks.join_ciphertexts([second, first]))


def moved(server: CkksServer, said: Said) -> None:
    for name in NAMES:
        server.add(name, said[name])
    one = [0.0] * SLOTS
    one[9] = 1.0
    server._total[0].add_(tenseal.ckks_vector(server._context, one, SCALE))


def magnified(server: CkksServer, said: Said) -> None:
    """One client's part 2^20 times, so that it can be told from the others'."""
    for name in NAMES:
        server.add(name, said[name])
    part = ckks.load_ciphertexts(server._context, said[NAMES[1]], 2)
    for _ in range(20):
        part = [each.add_(each.copy()) for each in part]
    server._total = [a.add_(b) for a, b in zip(server._total, part, strict=True)]


@pytest.mark.parametrize(
    ("cheat", "told"),
    [
        (alone, "the tags are not those"),
        (four_times, "the tags are not those"),
        (one_missing, "the tags are not those"),
        (exchanged, "the tags are not those"),
        (moved, "the tags are not those"),
        (magnified, "another one, or the sum was changed"),
    ],
)
def test_a_sum_of_others_than_it_says_is_refused(cheat, told: str) -> None:  # type: ignore[no-untyped-def]
    run, vectors = Sum(2 * WIDTH).handed_out(), numbers(0, 2 * WIDTH)
    said = {n: run.clients[n].encrypt(v) for n, v in zip(NAMES, vectors, strict=True)}
    cheat(run.server, said)
    whole, digest = run.server.total()
    run.clients[NAMES[0]].approve(NAMES, digest)
    with pytest.raises(CkksError, match=told):
        run.clients[NAMES[0]].decrypt_sum(whole, NAMES)


def test_a_canary_that_is_wrong_is_refused() -> None:
    """A member that tags with another key than the sum's."""
    run = Sum().handed_out()
    run.clients[NAMES[2]]._tags = SumTags(b"another key of t")
    with pytest.raises(CkksError, match="tags are not those"):
        run.clients[NAMES[0]].decrypt_sum(run.added(numbers(0)), NAMES)


@pytest.mark.parametrize("bit", range(2_000, 1_000_000, 99_991))
def test_a_flipped_bit_of_a_sum_is_refused(bit: int) -> None:
    run = Sum().handed_out()
    for name, vector in zip(NAMES, numbers(0), strict=True):
        run.server.add(name, run.clients[name].encrypt(vector))
    whole = bytearray(run.server.total()[0])
    whole[bit // 8] ^= 1 << bit % 8
    run.clients[NAMES[0]].approve(NAMES, sha256(whole).digest())
    with pytest.raises(CkksError):
        run.clients[NAMES[0]].decrypt_sum(bytes(whole), NAMES)


def test_a_key_that_was_changed_on_its_way_is_refused() -> None:
    run = Sum()
    key = run.key
    changed: list[tuple[str, SumKey]] = [
        ("what the maker sealed", replace(key, sealed={NAMES[1]: key.sealed[NAMES[2]]})),
        ("what the maker sealed", replace(key, sealed={})),
        ("what the maker sealed", replace(key, secret=key.secret[:-1])),
        ("what the maker sealed", replace(key, sealing=run.sealing[NAMES[2]])),
        ("no point of the curve", replace(key, sealing=bytes(32))),
        ("the context has a secret key", replace(key, public=ckks.make_keys().secret)),
    ]
    for told, each in changed:
        with pytest.raises(CkksError, match=told):
            run.clients[NAMES[1]].load_key(each)
    run.clients[NAMES[1]].load_key(key)
    with pytest.raises(CkksError, match="a second key"):
        run.clients[NAMES[1]].load_key(key)


def test_who_is_not_the_first_keeper_makes_no_key_and_nobody_makes_two() -> None:
    run = Sum()
    with pytest.raises(CkksError, match="client-1 does not make this key"):
        run.clients[NAMES[1]].make_key(run.sealing)
    with pytest.raises(CkksError, match="client-0 does not make this key, or made it before"):
        run.clients[NAMES[0]].make_key(run.sealing)


def test_a_key_is_made_for_all_members_or_for_none() -> None:
    terms = SumTerms(NAMES, NAMES, 3, CONTEXT)
    maker = CkksClient(NAMES[0], terms, os.urandom)
    others = {name: CkksClient(name, terms, os.urandom).sealing for name in NAMES}
    with pytest.raises(CkksError, match=r"this member.s key was changed"):
        maker.make_key(others)
    with pytest.raises(CkksError, match="public key is missing"):
        maker.make_key({NAMES[0]: maker.sealing})


def test_one_keeper_alone_and_a_minority_are_refused() -> None:
    with pytest.raises(CkksError, match="1 key holders; at least two"):
        SumTerms(NAMES, NAMES[:1], 3, CONTEXT)
    with pytest.raises(CkksError, match="the threshold 2 is no majority of 4 members"):
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


def test_the_prime_is_one() -> None:
    assert PRIME < 2**24
    assert all(PRIME % each for each in range(2, 4097))
