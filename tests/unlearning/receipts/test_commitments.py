"""Commitments and the Merkle tree over them, beside values computed by hand."""

import hashlib

import pytest

from psi.ids import join_columns, normalise
from unlearning.receipts.commitment import canonical_id, model_commitment, subject_commitment
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.merkle import (
    Neighbour,
    TreeSide,
    inclusion_path,
    merkle_root,
    root_of_path,
)

SALT = bytes(range(32))


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def test_commitments_are_hashes_over_domain_salt_and_content() -> None:
    assert subject_commitment(SALT, b"ada") == sha256(b"vfl/subject/v1", SALT, b"ada")
    assert model_commitment(SALT, SALT) == sha256(b"vfl/model/v1", SALT, SALT)
    with pytest.raises(ReceiptError, match="31 bytes, expected 32"):
        subject_commitment(SALT[1:], b"ada")


@pytest.mark.parametrize("columns", [["ada"], [" Ａda "], ["ab", "c"], ["a", "bc"], ["ö", " 7"]])
def test_normal_form_of_an_id_is_that_of_the_intersection(columns: list[str]) -> None:
    parts = [normalise(each) for each in columns]
    assert canonical_id(columns) == (parts[0] if len(parts) == 1 else join_columns(parts))


@pytest.mark.parametrize("columns", [[], [""], ["a", "  "], ["\ud800"]])
def test_id_without_a_normal_form_is_refused(columns: list[str]) -> None:
    with pytest.raises(ReceiptError, match="the ID is"):
        canonical_id(columns)


def test_roots_of_small_trees() -> None:
    a, b, c = (sha256(b"\0", each) for each in (b"a", b"b", b"c"))
    ab = sha256(b"\1", a, b)
    assert merkle_root([]) == sha256()
    assert merkle_root([b"a"]) == a
    assert merkle_root([b"b", b"a"]) == ab
    assert merkle_root([b"c", b"a", b"b"]) == sha256(b"\1", ab, c)
    assert inclusion_path([b"c", b"a", b"b"], b"b") == [
        Neighbour(TreeSide.LEFT, a),
        Neighbour(TreeSide.RIGHT, c),
    ]


def test_root_of_rfc_6962_test_vector() -> None:
    """The tree of certificate-transparency-go's tests, whose inputs are in ascending order."""
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657",
              "606162636465666768696a6b6c6d6e6f"]  # fmt: skip
    root = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert merkle_root(map(bytes.fromhex, inputs)).hex() == root


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100])
def test_every_leaf_has_a_path_to_the_root_and_no_other_leaf_has(count: int) -> None:
    leaves = [sha256(bytes([number])) for number in range(count)]
    root = merkle_root(leaves)
    for number, leaf in enumerate(leaves):
        path = inclusion_path(leaves, leaf)
        assert root_of_path(leaf, path) == root
        assert root_of_path(sha256(b"other"), path) != root
        assert len(path) <= max(count - 1, 0).bit_length()
        if count > 1:
            assert root_of_path(leaves[number - 1], path) != root


def test_node_is_no_leaf() -> None:
    left, right = sha256(b"\0", b"a"), sha256(b"\0", b"b")
    assert root_of_path(left + right, []) != merkle_root([b"a", b"b"])


def test_repeated_and_absent_commitments_are_refused() -> None:
    with pytest.raises(ReceiptError, match="twice"):
        merkle_root([b"a", b"a"])
    with pytest.raises(ReceiptError, match="not in the tree"):
        inclusion_path([b"a"], b"b")
