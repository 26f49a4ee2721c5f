"""Secure aggregation by masks: exact sums, drop-outs, and refusals."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.horizontal.local.local_task import LocalUpdate
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
from parties.horizontal.secure.sums import hidden_update

BITS, CONTEXT = 32, b"session 1, round 7"


class Sum:
    """Clients and server of one sum."""

    def __init__(self, count: int, threshold: int) -> None:
        self.members = [f"client-{number}" for number in range(count)]
        self.clients = {
            name: MaskingClient(name, self.members, threshold, CONTEXT, os.urandom)
            for name in self.members
        }
        self.public_keys = {name: each.public_keys for name, each in self.clients.items()}
        sealed = {name: each.seal_shares(self.public_keys) for name, each in self.clients.items()}
        self.sealed = {
            reader: {writer: sealed[writer][reader] for writer in self.members if writer != reader}
            for reader in self.members
        }
        self.server = MaskingServer(self.members, self.public_keys, threshold, CONTEXT)

    def masked(self, vectors: Sequence[Floats], present: Sequence[str]) -> dict[str, Words]:
        values = dict(zip(self.members, vectors, strict=True))
        count = len(self.members)
        return {
            n: self.clients[n].mask(encode_fixed_point(values[n], BITS, count)) for n in present
        }

    def revealed(
        self, present: Sequence[str], replying: Sequence[str]
    ) -> dict[str, RevealedShares]:
        return {
            name: self.clients[name].reveal_shares(self.sealed[name], present) for name in replying
        }


def test_second_vector_and_second_shares_are_refused() -> None:
    run, vector = Sum(3, 2), encode_fixed_point(np.ones(4), BITS, 3)
    one = run.clients[run.members[0]]
    one.mask(vector)
    with pytest.raises(MaskingError, match="a second vector under the same mask"):
        one.mask(vector)
    with pytest.raises(MaskingError, match="has already encrypted its key shares"):
        one.seal_shares(run.public_keys)


@settings(max_examples=20)
@given(st.integers(3, 8), st.integers(0, 999), st.data())
def test_sum_is_exact_after_any_drop_outs(count: int, seed: int, data: st.DataObject) -> None:
    threshold = count // 2 + 1
    run, vectors = Sum(count, threshold), np.random.default_rng(seed).normal(size=(count, 50))
    present = sorted(data.draw(st.sets(st.sampled_from(run.members), min_size=threshold)))
    replying = sorted(data.draw(st.sets(st.sampled_from(present), min_size=threshold)))
    for name, masked in run.masked(list(vectors), present).items():
        run.server.add(name, masked)
    total = decode_fixed_point(run.server.total(run.revealed(present, replying)), BITS)
    expected = sum(vectors[run.members.index(name)] for name in present)
    np.testing.assert_allclose(total, expected, atol=len(present) * 2.0 ** -(BITS + 1), rtol=0)


def test_masked_vector_is_uncorrelated_with_the_vector() -> None:
    run, vectors = Sum(3, 2), np.random.default_rng(0).normal(size=(3, 100_000))
    masked = run.masked(list(vectors), run.members)[run.members[0]]
    received = masked.view(np.int64).astype(np.float64)
    assert abs(np.corrcoef(received, vectors[0])[0, 1]) < 0.01
    assert (
        np.corrcoef(decode_fixed_point(encode_fixed_point(vectors[0], BITS, 3), BITS), vectors[0])[
            0, 1
        ]
        > 0.99
    )


def test_too_few_present_members_reveal_no_shares() -> None:
    run = Sum(5, 3)
    with pytest.raises(MaskingError, match="present clients has 2 names; expected at least 3"):
        run.revealed(run.members[:2], run.members[:1])


def test_revealing_shares_twice_is_refused() -> None:
    """Shares for all members and then without one member would reveal its seed and its key."""
    run = Sum(3, 2)
    run.revealed(run.members, run.members)
    with pytest.raises(MaskingError, match="a second set of shares"):
        run.revealed(run.members[:2], run.members[:1])


def test_too_few_shares_give_no_sum() -> None:
    run, vectors = Sum(5, 3), list(np.ones((5, 4)))
    for name, masked in run.masked(vectors, run.members).items():
        run.server.add(name, masked)
    with pytest.raises(MaskingError, match="2 members revealed shares, expected at least 3"):
        run.server.total(run.revealed(run.members, run.members[:2]))


def test_key_of_a_lost_member_from_a_wrong_share_is_refused() -> None:
    """With another key, the server would subtract masks that nobody added."""
    run, vectors = Sum(4, 3), list(np.ones((4, 4)))
    present = run.members[:3]
    for name, masked in run.masked(vectors, present).items():
        run.server.add(name, masked)
    revealed = run.revealed(present, present)
    share = bytearray(revealed["client-1"].keys["client-3"])
    share[5] ^= 1
    wrong = replace(revealed["client-1"], keys={"client-3": bytes(share)})
    with pytest.raises(MaskingError, match="does not match the public key of client-3"):
        run.server.total(revealed | {"client-1": wrong})
    total = decode_fixed_point(run.server.total(revealed), BITS)
    assert total.tolist() == [3.0, 3.0, 3.0, 3.0]


def test_one_share_fewer_than_the_threshold_reveals_no_key() -> None:
    """A server that combines 2 shares, where the members agreed on 3, gets another key."""
    run, vectors = Sum(4, 3), list(np.ones((4, 4)))
    present = run.members[:3]
    curious = MaskingServer(run.members, run.public_keys, 2, CONTEXT)
    for name, masked in run.masked(vectors, present).items():
        curious.add(name, masked)
    with pytest.raises(MaskingError, match="does not match the public key of client-3"):
        curious.total(run.revealed(present, present[:2]))


def test_share_changed_in_transit_is_refused() -> None:
    run = Sum(3, 2)
    text = bytearray(run.sealed["client-0"]["client-1"])
    text[3] ^= 1
    run.sealed["client-0"]["client-1"] = bytes(text)
    with pytest.raises(
        MaskingError, match="share of client-1 was changed after client-1 encrypted it"
    ):
        run.revealed(run.members, ["client-0"])


def test_share_for_another_member_is_refused() -> None:
    run = Sum(3, 2)
    run.sealed["client-0"]["client-1"] = run.sealed["client-2"]["client-1"]
    with pytest.raises(MaskingError, match=r"the share of .* was changed after .* encrypted it"):
        run.revealed(run.members, ["client-0"])


def test_public_keys_changed_in_transit_are_refused() -> None:
    client = MaskingClient("a", ["a", "b"], 2, CONTEXT, os.urandom)
    other = MaskingClient("b", ["a", "b"], 2, CONTEXT, os.urandom)
    changed = replace(client.public_keys, masking=public_key_of(os.urandom(32)))
    with pytest.raises(MaskingError, match="or the public keys of a were changed"):
        client.seal_shares({"a": changed, "b": other.public_keys})
    with pytest.raises(MaskingError, match="the public keys belong to other clients"):
        client.seal_shares({"a": client.public_keys})


def test_minority_threshold_is_refused() -> None:
    with pytest.raises(MaskingError, match="the threshold is 2 of 4 members, expected more"):
        MaskingClient("a", ["a", "b", "c", "d"], 2, CONTEXT, os.urandom)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**31, -(2.0**31)])
def test_value_beyond_the_range_is_refused(value: float) -> None:
    with pytest.raises(FixedPointOverflow, match="not finite, or its absolute value exceeds"):
        encode_fixed_point(np.array([value]), BITS, 2)


def test_fixed_point_by_hand() -> None:
    assert encode_fixed_point(np.array([1.5, -0.25]), 2, 3).view(np.int64).tolist() == [6, -1]
    assert decode_fixed_point(np.array([6, -1]).view(np.uint64), 2).tolist() == [1.5, -0.25]


def test_keystream_depends_on_its_key() -> None:
    assert (mask_keystream(b"k" * 16, 5) == mask_keystream(b"k" * 16, 9)[:5]).all()
    assert (mask_keystream(b"k" * 16, 5) != mask_keystream(b"l" * 16, 5)).all()


def test_a_sum_hides_what_tells_the_number_of_rows() -> None:
    update = LocalUpdate(torch.zeros(3), rows=1234, loss=0.5, steps=77, tokens=9)
    hidden = hidden_update(update, 0.0)
    assert (hidden.rows, hidden.loss, hidden.steps, hidden.tokens) == (0, 0.0, 0, 0)
