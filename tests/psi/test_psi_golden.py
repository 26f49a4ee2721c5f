"""Golden bytes: with fixed entropy every message is fixed; a change here breaks every peer."""

import hashlib

from psi_run import parties

from psi.alignment import alignment_digest, common_order
from psi.ids import hashed, join_columns

LEADER = [b"ada", b"bob", b"cyd"]
MEMBERS = {"shop": [b"bob", b"ada", b"dan"], "bank": [b"ada", b"eve", b"bob"]}

GOLDEN = {
    "share": "f8a9b1f6db324d04298dac1550c15d3b8ccff1234aeb14173cc74eb7b7a18724",
    "offer": "2fc450b87c858ca3278e80ab8d6ad1fba75354d23284997e2d2b7772dc40b883",
    "answer": "3518cc1e8605ca7514e7fa42054aaf5a0e1ccfe968a24f8f76b016700598a9ba",
    "block 0": "b39ab8499198b8399773bfed0caf8c8b38ad449b64f178b21ffd212f8ee37ef2",
    "store": "93112e41dec29afcb240eed3962277848d33cbd775a571e9c9eddcb3a489987c",
    "tags": "ea9fd877f53e9e6069fb7d5bf611bbb2f3974e3f4b15d4be",
}


def transcript(seed: str) -> dict[str, str]:
    """The share and the tags of the shop as they are, its other messages as SHA-256."""
    leader, members = parties(LEADER, MEMBERS, seed=seed)
    said = {}

    def note(kind: str, message: bytes) -> None:
        said[kind] = message.hex() if len(message) <= 32 else hashlib.sha256(message).hexdigest()

    shares = {name: member.start() for name, member in members.items()}
    note("share", shares["shop"])
    for name, member in members.items():
        offer = member.offer(shares)
        answer = leader.answer(name, offer)
        member.accept(answer)
        if name == "shop":
            note("offer", offer)
            note("answer", answer)
    for count, blocks in enumerate(leader.matrix()):
        note(f"block {count}", blocks["shop"].tobytes())
        for name, block in blocks.items():
            members[name].absorb(block)
    for name, member in members.items():
        store = member.store()
        leader.store(name, store)
        if name == "shop":
            note("store", store.tobytes())
    note("tags", leader.finish().tags["shop"].tobytes())
    return said


def test_messages() -> None:
    assert transcript("golden") == GOLDEN


def test_other_entropy_other_messages() -> None:
    other = transcript("other")
    assert all(other[kind] != golden for kind, golden in GOLDEN.items())


def test_hashes_digests_and_order() -> None:
    session, key = bytes(range(16)), b"k" * 32
    assert (
        hashed([b"ada", b"bob"], session).tobytes().hex()
        == "1df4bfda2162c6f6d2bf3f06fac45e6ea2028349c22e5977f952afa71d5828c2"
    )
    assert (
        alignment_digest([b"ada", b"bob"], session, bytes(32)).hex()
        == "61ddd0dd50c6e89ef433538a68bc436d8057c82928cc3e8e24187c4ddeeb7d44"
    )
    assert common_order([b"ada", b"bob", b"cyd", b"dan"], key).tolist() == [1, 3, 2, 0]
    assert join_columns([b"ab", b"c"]) == b"\0\0\0\2ab\0\0\0\1c"
