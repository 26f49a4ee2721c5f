"""Base oblivious transfer: w pairs of keys for the leader, one of each pair for the member.

Masny and Rindal, "Endemic Oblivious Transfer" (CCS 2019), Figure 8, on ristretto255. The sender
(the leader) draws a fresh scalar for each of its 2w answers, as the proof from DDH asks; one
scalar for all would rest on an interactive assumption.

Letters: s is the receiver's choice bit, a its scalar, (r₀, r₁) its offer, t and B = t·G the
sender's scalar and answer; H_{j,i} are random oracles into the group.
"""

from dataclasses import dataclass, field

import numpy as np

from psi.aes import KEY_BYTES
from psi.domain import digest, framed, number
from psi.group import (
    POINT_BYTES,
    UNIFORM_BYTES,
    added,
    generated,
    hashed_point,
    multiplied,
    random_point,
    random_scalar,
    read_points,
    subtracted,
)
from psi.shared_types import Bytes, Entropy


@dataclass(frozen=True, slots=True)
class Choice:
    """The receiver's half between its two messages; only ``offer`` leaves it."""

    offer: bytes  # 64 · w bytes
    bits: Bytes = field(repr=False)  # [w] of 0 and 1: s
    scalars: tuple[bytes, ...] = field(repr=False)  # a


@dataclass(frozen=True, slots=True)
class Pairs:
    """The sender's result; only ``answer`` leaves it."""

    answer: bytes  # 64 · w bytes
    keys: tuple[tuple[bytes, bytes], ...] = field(repr=False)  # [w] pairs of 16 bytes


def choose(context: bytes, width: int, entropy: Entropy) -> Choice:
    """The receiver's first step: w random choice bits and the offer that hides them.

    The bits are hidden perfectly: r₀ and r₁ are uniform whatever s is.
    """
    bits = np.unpackbits(np.frombuffer(entropy(width // 8), np.uint8))
    scalars = tuple(random_scalar(entropy(UNIFORM_BYTES)) for _ in range(width))
    offers = []
    for j, (bit, scalar) in enumerate(zip(bits.tolist(), scalars, strict=True)):
        # Figure 8: r_{1-s} ← G, r_s = a·G - H_s(r_{1-s}).
        other = random_point(entropy(UNIFORM_BYTES))
        chosen = subtracted(generated(scalar), _oracle(context, j, bit, other))
        offers += [other, chosen] if bit else [chosen, other]
    return Choice(b"".join(offers), bits, scalars)


def answer(context: bytes, width: int, offer: bytes, entropy: Entropy, who: str) -> Pairs:
    """The sender's only step, on the ``offer`` of ``who``.

    Raises:
        PsiError: the offer has the wrong length or a bad point.
    """
    points = read_points(offer, 2 * width, f"{who}: offer")
    answers, keys = [], []
    for j in range(width):
        pair = []
        for i in (0, 1):
            theirs, other = points[2 * j + i], points[2 * j + 1 - i]
            scalar = random_scalar(entropy(UNIFORM_BYTES))
            # Figure 8: the receiver's message is r_i + H_i(r_{1-i}).
            shared = multiplied(scalar, added(theirs, _oracle(context, j, i, other)))
            answers.append(generated(scalar))
            pair.append(_key(context, j, i, theirs + other + answers[-1], shared))
        keys.append((pair[0], pair[1]))
    return Pairs(b"".join(answers), tuple(keys))


def chosen_keys(context: bytes, choice: Choice, reply: bytes) -> list[bytes]:
    """The receiver's last step: for each pair the key that its bit chose, [w] of 16 bytes.

    Raises:
        PsiError: the reply has the wrong length or a bad point.
    """
    width = len(choice.scalars)
    answers = read_points(reply, 2 * width, "leader: answer")
    offers = [choice.offer[at : at + POINT_BYTES] for at in range(0, len(choice.offer), 32)]
    keys = []
    for j, (bit, scalar) in enumerate(zip(choice.bits.tolist(), choice.scalars, strict=True)):
        mine, theirs = 2 * j + bit, 2 * j + 1 - bit
        transcript = offers[mine] + offers[theirs] + answers[mine]
        keys.append(_key(context, j, bit, transcript, multiplied(scalar, answers[mine])))
    return keys


def _oracle(context: bytes, j: int, i: int, point: bytes) -> bytes:
    """H_{j,i}(point)."""
    return hashed_point(framed("ot-point", context, number(j), number(i), point))


def _key(context: bytes, j: int, i: int, transcript: bytes, shared: bytes) -> bytes:
    return digest("ot-key", context, number(j), number(i), transcript, shared)[:KEY_BYTES]
