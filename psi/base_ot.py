"""Base oblivious transfer: the leader gets w pairs of keys, the member one key of each pair.

Masny and Rindal, "Endemic Oblivious Transfer" (CCS 2019), Figure 8, on ristretto255. The sender
(the leader) samples a fresh scalar for each of the 2w answers, because the security proof under DDH
requires fresh scalars. With one scalar for all answers, the proof would need an interactive
assumption.

Notation: for the receiver, s is the choice bit, a the scalar and (r₀, r₁) the offer. For the
sender, t is the scalar and B = t·G the answer. H_{j,i} are random oracles into the group.
"""

from dataclasses import dataclass, field

import numpy as np

from psi.aes import KEY_BYTES
from psi.domain import labelled_bytes, labelled_digest, uint64_bytes
from psi.group import (
    UNIFORM_BYTES,
    add_points,
    hash_to_point,
    multiply_generator,
    multiply_point,
    point_from_uniform,
    read_points,
    scalar_from_uniform,
    split_bytes,
    subtract_points,
)
from psi.shared_types import Bytes, Entropy


@dataclass(frozen=True, slots=True)
class OtReceiverState:
    """The receiver's state between its two steps; only ``offer`` is sent, all else is secret."""

    offer: bytes  # 64 · w bytes
    bits: Bytes = field(repr=False)  # [w] of 0 and 1: s
    scalars: tuple[bytes, ...] = field(repr=False)  # a, w of 32 bytes


@dataclass(frozen=True, slots=True)
class OtSenderResult:
    """What the sender gets: the answer to send, and both secret keys of every pair."""

    answer: bytes  # 64 · w bytes
    keys: tuple[tuple[bytes, bytes], ...] = field(repr=False)  # w pairs of 16 bytes


def make_ot_offer(context: bytes, width: int, entropy: Entropy) -> OtReceiverState:
    """The receiver's first step: sample w choice bits, and make an offer that hides the bits.

    The offer hides the bits perfectly: r₀ and r₁ are uniform for both values of s.
    """
    bits = np.unpackbits(np.frombuffer(entropy(width // 8), np.uint8))
    scalars = tuple(scalar_from_uniform(entropy(UNIFORM_BYTES)) for _ in range(width))
    offers = []
    for j, (bit, scalar) in enumerate(zip(bits.tolist(), scalars, strict=True)):
        # Figure 8: r_{1-s} ← G, r_s = a·G - H_s(r_{1-s}).
        other = point_from_uniform(entropy(UNIFORM_BYTES))
        chosen = subtract_points(multiply_generator(scalar), _oracle(context, j, bit, other))
        offers += [other, chosen] if bit else [chosen, other]
    return OtReceiverState(b"".join(offers), bits, scalars)


def answer_ot_offer(
    context: bytes, width: int, offer: bytes, entropy: Entropy, who: str
) -> OtSenderResult:
    """The sender's only step: answer the ``offer`` of the receiver with the name ``who``.

    Raises:
        PsiError: the offer has a wrong length or an invalid point.
    """
    points = read_points(offer, 2 * width, f"{who}: offer")
    answers, keys = [], []
    for j in range(width):
        pair = []
        for i in (0, 1):
            theirs, other = points[2 * j + i], points[2 * j + 1 - i]
            scalar = scalar_from_uniform(entropy(UNIFORM_BYTES))
            # Figure 8: the receiver's message is r_i + H_i(r_{1-i}).
            shared = multiply_point(scalar, add_points(theirs, _oracle(context, j, i, other)))
            answers.append(multiply_generator(scalar))
            pair.append(_key(context, j, i, theirs + other + answers[-1], shared))
        keys.append((pair[0], pair[1]))
    return OtSenderResult(b"".join(answers), tuple(keys))


def derive_chosen_keys(context: bytes, state: OtReceiverState, answer: bytes) -> list[bytes]:
    """The receiver's last step: derive the w keys that the choice bits select, 16 bytes each.

    Raises:
        PsiError: the answer has a wrong length or an invalid point.
    """
    answers = read_points(answer, 2 * len(state.scalars), "leader: answer")
    offers = split_bytes(state.offer)
    keys = []
    for j, (bit, scalar) in enumerate(zip(state.bits.tolist(), state.scalars, strict=True)):
        mine, theirs = 2 * j + bit, 2 * j + 1 - bit
        transcript = offers[mine] + offers[theirs] + answers[mine]
        keys.append(_key(context, j, bit, transcript, multiply_point(scalar, answers[mine])))
    return keys


def _oracle(context: bytes, j: int, i: int, point: bytes) -> bytes:
    """H_{j,i}(point)."""
    text = labelled_bytes("ot-point", context, uint64_bytes(j), uint64_bytes(i), point)
    return hash_to_point(text)


def _key(context: bytes, j: int, i: int, transcript: bytes, shared: bytes) -> bytes:
    parts = (context, uint64_bytes(j), uint64_bytes(i), transcript, shared)
    return labelled_digest("ot-key", *parts)[:KEY_BYTES]
