"""Golden bytes: with fixed entropy every message is fixed; a change here breaks every peer."""

import hashlib

from psi_run import parties

from psi.alignment import alignment_digest, common_order, order_words
from psi.ids import fingerprint_ids, join_columns, session_hashes

LEADER = [b"ada", b"bob", b"cyd"]
MEMBERS = {"shop": [b"bob", b"ada", b"dan"], "bank": [b"ada", b"eve", b"bob"]}

GOLDEN = {
    "share": "f8a9b1f6db324d04298dac1550c15d3b8ccff1234aeb14173cc74eb7b7a18724",
    "offer": "2fc450b87c858ca3278e80ab8d6ad1fba75354d23284997e2d2b7772dc40b883",
    "answer": "3518cc1e8605ca7514e7fa42054aaf5a0e1ccfe968a24f8f76b016700598a9ba",
    "block 0": "af1577120ad72a8a035b8cd57a7a391891a0d53ffa562cf9387a10dbf60f351b",
    "store": "265d738a48cf5a4595048b07f441736e66b639e6404a44cce1140b5abc1f7c3a",
    "tags": "8e11ecda9c04e6745bd8f60b98c7496c072c3d8493b8ac62",
}


def transcript(seed: str) -> dict[str, str]:
    """The shop's messages: in hexadecimal up to 32 bytes, longer ones as SHA-256."""
    leader, members = parties(LEADER, MEMBERS, seed=seed)
    messages = {}

    def note(kind: str, message: bytes) -> None:
        messages[kind] = (
            message.hex() if len(message) <= 32 else hashlib.sha256(message).hexdigest()
        )

    shares = {name: member.start() for name, member in members.items()}
    note("share", shares["shop"])
    for name, member in members.items():
        offer = member.make_offer(shares)
        answer = leader.answer_offer(name, offer)
        member.receive_answer(answer)
        if name == "shop":
            note("offer", offer)
            note("answer", answer)
    for count, blocks in enumerate(leader.matrix_blocks()):
        note(f"block {count}", blocks["shop"].tobytes())
        for name, block in blocks.items():
            members[name].receive_block(block)
    for name, member in members.items():
        store = member.make_store()
        leader.receive_store(name, store)
        if name == "shop":
            note("store", store.tobytes())
    note("tags", leader.finish().tags["shop"].tobytes())
    return messages


def test_messages_are_golden() -> None:
    assert transcript("golden") == GOLDEN


def test_other_entropy_gives_other_messages() -> None:
    other = transcript("other")
    assert all(other[kind] != golden for kind, golden in GOLDEN.items())


def test_hashes_digests_and_order_are_golden() -> None:
    session, key = bytes(range(16)), b"k" * 32
    assert (
        session_hashes([b"ada", b"bob"], session).tobytes().hex()
        == "0ced089e3b031fc02a46866a2fd201cea642ddc4cc29f0728d255f5e8037c8ad"
    )
    (prints,) = fingerprint_ids([b"ada", b"bob", b"cyd", b"dan", b"eve"])
    assert (
        alignment_digest(fingerprint_ids([b"ada", b"bob"]), session, bytes(32)).hex()
        == "1a2b5191e69cbb58afe902d8dfa81d244356fdfe8df3e0a237c8f7e657ee1e93"
    )
    assert common_order(lambda part: order_words(prints, key, part)).tolist() == [
        1,
        2,
        0,
        4,
        3,
    ]
    assert join_columns([b"ab", b"c"]) == b"\0\0\0\2ab\0\0\0\1c"
