"""Secure aggregation: sums without their parts, drop-outs, and what is refused."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.horizontal.secure.masking.client import MaskingClient, MaskingError, RevealedShares
from parties.horizontal.secure.masking.fixed_point import (
    FixedPointOverflow,
    Floats,
    Words,
    decode_fixed_point,
    encode_fixed_point,
    mask_keystream,
)
from parties.horizontal.secure.masking.pair_keys import public_key_of
from parties.horizontal.secure.masking.server import MaskingServer

BITS, CONTEXT = 32, b"session 1, round 7"


class Sum:
    """All sides of one sum."""

    def __init__(self, count: int, threshold: int) -> None:
        self.members = [f"client-{number}" for number in range(count)]
        self.clients = {
            name: MaskingClient(name, self.members, threshold, CONTEXT, os.urandom)
            for name in self.members
        }
        self.public_keys = {name: each.public_keys for name, each in self.clients.items()}
        told = {name: each.seal_shares(self.public_keys) for name, each in self.clients.items()}
        self.sealed = {
            reader: {writer: told[writer][reader] for writer in self.members if writer != reader}
            for reader in self.members
        }
        self.server = MaskingServer(self.members, self.public_keys, threshold, CONTEXT)

    def masked(self, vectors: Sequence[Floats], there: Sequence[str]) -> dict[str, Words]:
        values = dict(zip(self.members, vectors, strict=True))
        count = len(self.members)
        return {n: self.clients[n].mask(encode_fixed_point(values[n], BITS, count)) for n in there}

    def opened(self, there: Sequence[str], answering: Sequence[str]) -> dict[str, RevealedShares]:
        return {
            name: self.clients[name].reveal_shares(self.sealed[name], there) for name in answering
        }


def test_a_second_vector_under_one_mask_and_a_second_dealing_are_refused() -> None:
    run, vector = Sum(3, 2), encode_fixed_point(np.ones(4), BITS, 3)
    one = run.clients[run.members[0]]
    one.mask(vector)
    with pytest.raises(MaskingError, match="a second vector under one mask"):
        one.mask(vector)
    with pytest.raises(MaskingError, match="the shares of this sum were sealed before"):
        one.seal_shares(run.public_keys)


@settings(max_examples=20)
@given(st.integers(3, 8), st.integers(0, 999), st.data())
def test_the_sum_is_exact_whoever_drops_out(count: int, seed: int, data: st.DataObject) -> None:
    threshold = count // 2 + 1
    run, vectors = Sum(count, threshold), np.random.default_rng(seed).normal(size=(count, 50))
    there = sorted(data.draw(st.sets(st.sampled_from(run.members), min_size=threshold)))
    answering = sorted(data.draw(st.sets(st.sampled_from(there), min_size=threshold)))
    for name, masked in run.masked(list(vectors), there).items():
        run.server.add(name, masked)
    found = decode_fixed_point(run.server.total(run.opened(there, answering)), BITS)
    wanted = sum(vectors[run.members.index(name)] for name in there)
    np.testing.assert_allclose(found, wanted, atol=len(there) * 2.0 ** -(BITS + 1), rtol=0)


def test_what_the_server_sees_of_one_client_says_nothing_of_its_vector() -> None:
    run, vectors = Sum(3, 2), np.random.default_rng(0).normal(size=(3, 100_000))
    masked = run.masked(list(vectors), run.members)[run.members[0]]
    seen = masked.view(np.int64).astype(np.float64)
    assert abs(np.corrcoef(seen, vectors[0])[0, 1]) < 0.01
    assert (
        np.corrcoef(decode_fixed_point(encode_fixed_point(vectors[0], BITS, 3), BITS), vectors[0])[
            0, 1
        ]
        > 0.99
    )


def test_too_few_who_are_there_open_nothing() -> None:
    run = Sum(5, 3)
    with pytest.raises(MaskingError, match="2 members are present, and the sum needs 3"):
        run.opened(run.members[:2], run.members[:1])


def test_a_second_opening_is_refused() -> None:
    """First with all there, then with one gone, would show the seed and the key of that one."""
    run = Sum(3, 2)
    run.opened(run.members, run.members)
    with pytest.raises(MaskingError, match="a second set of shares"):
        run.opened(run.members[:2], run.members[:1])


def test_too_few_shares_give_no_sum() -> None:
    run, vectors = Sum(5, 3), list(np.ones((5, 4)))
    for name, masked in run.masked(vectors, run.members).items():
        run.server.add(name, masked)
    with pytest.raises(MaskingError, match="2 members revealed their shares, 3 are needed"):
        run.server.total(run.opened(run.members, run.members[:2]))


def test_a_share_that_was_changed_on_its_way_is_noticed() -> None:
    run = Sum(3, 2)
    text = bytearray(run.sealed["client-0"]["client-1"])
    text[3] ^= 1
    run.sealed["client-0"]["client-1"] = bytes(text)
    with pytest.raises(MaskingError, match="share of client-1 is not what client-1 sealed"):
        run.opened(run.members, ["client-0"])


def test_a_share_for_somebody_else_opens_nowhere() -> None:
    run = Sum(3, 2)
    run.sealed["client-0"]["client-1"] = run.sealed["client-2"]["client-1"]
    with pytest.raises(MaskingError, match=r"the share of .* is not what .* sealed"):
        run.opened(run.members, ["client-0"])


def test_keys_that_were_exchanged_on_their_way_are_noticed() -> None:
    client = MaskingClient("a", ["a", "b"], 2, CONTEXT, os.urandom)
    other = MaskingClient("b", ["a", "b"], 2, CONTEXT, os.urandom)
    mine = replace(client.public_keys, masking=public_key_of(os.urandom(32)))
    with pytest.raises(MaskingError, match="this client's were changed"):
        client.seal_shares({"a": mine, "b": other.public_keys})
    with pytest.raises(MaskingError, match="public keys are missing"):
        client.seal_shares({"a": client.public_keys})


def test_no_minority_may_open_a_sum() -> None:
    with pytest.raises(MaskingError, match="the threshold 2 is no majority of 4 members"):
        MaskingClient("a", ["a", "b", "c", "d"], 2, CONTEXT, os.urandom)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**31, -(2.0**31)])
def test_what_does_not_fit_into_a_sum_is_refused(value: float) -> None:
    with pytest.raises(FixedPointOverflow, match="not finite, or larger than"):
        encode_fixed_point(np.array([value]), BITS, 2)


def test_fixed_point_by_hand() -> None:
    assert encode_fixed_point(np.array([1.5, -0.25]), 2, 3).view(np.int64).tolist() == [6, -1]
    assert decode_fixed_point(np.array([6, -1]).view(np.uint64), 2).tolist() == [1.5, -0.25]


def test_a_keystream_is_its_key_s_own() -> None:
    assert (mask_keystream(b"k" * 16, 5) == mask_keystream(b"k" * 16, 9)[:5]).all()
    assert (mask_keystream(b"k" * 16, 5) != mask_keystream(b"l" * 16, 5)).all()
