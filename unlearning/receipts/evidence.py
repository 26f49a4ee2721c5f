"""What a person can show beside a receipt: the proof of one subject, or all subjects of a request.

A proof contains no ID and no salt. A file of openings contains both, so only the controller of the
request keeps it.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from unlearning.receipts.commitment import canonical_id, subject_commitment
from unlearning.receipts.merkle import (
    Neighbour,
    TreeSide,
    inclusion_path,
    merkle_root,
    root_of_path,
)
from unlearning.receipts.table import Hash, JsonTable, Ulid

MAX_DEPTH_OF_TREE = 64


class ProofStep(JsonTable):
    """A hash beside the path from a subject to the root."""

    side: TreeSide
    hash: Hash


class SubjectProof(JsonTable):
    """The path from the commitment of one subject to the root of a request."""

    type: Literal["vfl-subject-proof"] = "vfl-subject-proof"
    version: Literal[1] = 1
    request_id: Ulid
    path: Annotated[tuple[ProofStep, ...], Field(max_length=MAX_DEPTH_OF_TREE)]

    def root(self, commitment: bytes) -> str:
        """Return the root that the path leads to from ``commitment``: 64 hexadecimal digits."""
        path = [Neighbour(each.side, bytes.fromhex(each.hash)) for each in self.path]
        return root_of_path(commitment, path).hex()


class Opening(JsonTable):
    """The ID of a subject, by column, and the salt of its commitment."""

    id: Annotated[tuple[str, ...], Field(min_length=1, max_length=16, repr=False)]
    salt: Annotated[Hash, Field(repr=False)]

    @property
    def commitment(self) -> bytes:
        """The commitment to the subject: 32 bytes."""
        return subject_commitment(bytes.fromhex(self.salt), canonical_id(self.id))


class SubjectOpenings(JsonTable):
    """All subjects of a request, with their salts."""

    type: Literal["vfl-subject-openings"] = "vfl-subject-openings"
    version: Literal[1] = 1
    request_id: Ulid
    subjects: tuple[Opening, ...]

    def root(self) -> str:
        """Return the root over all subjects: 64 hexadecimal digits.

        Raises:
            ReceiptError: a subject is empty, or appears twice with one salt.
        """
        return merkle_root(each.commitment for each in self.subjects).hex()


def subject_proof(request_id: str, commitments: Iterable[bytes], commitment: bytes) -> SubjectProof:
    """Return the proof that ``commitment`` is one of the ``commitments`` of a request.

    Raises:
        ReceiptError: it is not one of them.
    """
    path: Sequence[Neighbour] = inclusion_path(commitments, commitment)
    steps = tuple(ProofStep(side=side, hash=beside.hex()) for side, beside in path)
    return SubjectProof(request_id=request_id, path=steps)
