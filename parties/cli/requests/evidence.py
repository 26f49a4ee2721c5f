"""Commands about evidence: export and import of a journal, proofs, and receipts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.cli.console import Console
from parties.cli.requests.place import Place, acting_person, local_desk
from parties.cli.requests.views import view_of
from parties.common.atomic_file import write_atomically
from parties.common.errors import IntegrityError, PolicyError, StorageError, UsageProblem
from parties.requests.events import Event, EventKind
from parties.requests.lifecycle import CARRIED_OUT
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import PersonRole
from parties.requests.receipts import FOLDER, TRUST, lost_receipt
from parties.requests.subjects import openings
from protocol.errors import IdentityError, RemoteProtocolError
from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.evidence import SubjectOpenings, subject_proof
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import Receipt
from unlearning.receipts.verify import verify as verify_receipt


@dataclass(frozen=True, slots=True)
class EvidenceFiles:
    """The files that ``vfl unlearn export`` writes; None: not this file.

    Attributes:
        journal: all events.
        request: ID of the request that the other files are about.
        openings: the IDs and salts of the request.
        proof: the proof that the request has the subject.
        subject: ID of one subject, by column; empty without ``proof``.
    """

    journal: Path | None
    request: str | None
    openings: Path | None
    proof: Path | None
    subject: tuple[str, ...]

    def require(self) -> None:
        """Refuse options that do not belong together.

        Raises:
            UsageProblem: they do not.
        """
        about_one = self.openings is not None or self.proof is not None
        if (
            (self.journal is None and not about_one)
            or about_one is not (self.request is not None)
            or (self.proof is not None) is not bool(self.subject)
        ):
            raise UsageProblem(
                "expected --journal FILE, --request with --openings FILE, or --request with "
                "--subject ID and --proof FILE",
                "give --journal journal.jsonl",
            )


def export(local: LocalDesk, files: EvidenceFiles, key: Path | None, console: Console) -> None:
    """Write the journal, the subjects of a request, or the proof of one, for ``vfl-verify``.

    Raises:
        UsageProblem: options lack others, or the request has no such subject.
        StorageError: this party has no subjects of the request.
        IntegrityError: the signature of an event is wrong.
    """
    files.require()
    acting_person(local, key, PersonRole.AUDITOR)
    if files.journal is not None:
        records = local.desk.journal.since({})
        write_atomically(files.journal, b"".join(each + b"\n" for each in records))
        text = f"{len(records)} events: {files.journal}"
        console.print(text, event="exported", events=len(records), file=str(files.journal))
    if files.request is None:
        return
    view = view_of(local, files.request)
    subjects = local.subjects.of(view.id)
    if subjects is None:
        raise StorageError(
            f"this party has no IDs of the request {view.id}",
            f"only {view.origin} has the IDs, until its record is purged",
        )
    found = openings(view.id, subjects)
    if files.openings is not None:
        write_atomically(files.openings, canonical_bytes(found.to_json()))
        count = len(found.subjects)
        text = f"{count} subjects with salts, keep them secret: {files.openings}"
        console.print(text, event="exported", subjects=count, file=str(files.openings))
    if files.proof is not None:
        _export_proof(found, files.subject, files.proof, console)


def _export_proof(
    found: SubjectOpenings, subject: tuple[str, ...], path: Path, console: Console
) -> None:
    """Write the proof of one subject, and print its salt for the person."""
    own = next((each for each in found.subjects if each.id == subject), None)
    if own is None:
        raise UsageProblem(
            f"the request {found.request_id} has no such subject",
            "vfl unlearn show REQUEST --ids lists them; give --subject once for each ID column",
        )
    commitments = [each.commitment for each in found.subjects]
    proof = subject_proof(found.request_id, commitments, own.commitment)
    write_atomically(path, canonical_bytes(proof.to_json()))
    console.print(
        f"proof: {path}\nsalt, for this person alone: {own.salt}",
        event="proof",
        file=str(path),
        salt=own.salt,
    )


def import_journal(place: Place, path: Path, key: Path | None, console: Console) -> None:
    """Read the events of an exported journal, or the statement of a party that left.

    Raises:
        StorageError: the file cannot be read.
        PolicyError: a party states that it has left, but the agreement still names it.
        IntegrityError: the file contains no events of this federation, or the party's journal
            continued in another way after the restoration.
    """
    try:
        records = path.read_bytes().splitlines()
    except OSError as error:
        raise StorageError(
            f"cannot read {path}: {error.strerror}", "name a file of vfl unlearn export --journal"
        ) from error
    with local_desk(place, attends=False) as local:  # the party's own events come first
        acting_person(local, key, PersonRole.OPERATOR)
        before = sum(local.desk.journal.counts().values())
        try:
            events = [Event.decode(each) for each in records]
            _refuse_statements_of_present_parties(local, events)
            local.desk.merge(records, Counter(each.origin for each in events))
        except (ValueError, RemoteProtocolError, IdentityError) as error:
            raise IntegrityError(
                f"{path} cannot be imported: {error}",
                (isinstance(error, IdentityError) and error.hint)
                or "name an unchanged file of vfl unlearn export --journal, or of vfl leave, of "
                "this federation",
            ) from error
        new = sum(local.desk.journal.counts().values()) - before
        requests = len(local.desk.requests())
    text = f"{new} new events; the journal has {requests} requests. Start vfl serve at all parties"
    console.print(text, event="imported", events=new, requests=requests)


def _refuse_statements_of_present_parties(local: LocalDesk, events: Iterable[Event]) -> None:
    """Refuse a statement of a party that has left, while the agreement names this party.

    Raises:
        PolicyError: the last event of such a party is its statement.
    """
    last = {each.origin: each for each in events}
    for name in sorted(last.keys() & set(local.desk.rules.parties)):
        if last[name].kind is EventKind.LEFT:
            raise PolicyError(
                f"{name} states that it has left, but the agreement still names it",
                f"remove [parties.{name}] from the agreement of all parties that remain",
            )


@dataclass(frozen=True, slots=True)
class CheckedReceipt:
    """A receipt whose signatures of all parties are valid.

    Attributes:
        path: the file.
        page: the page that shows it.
        receipt: its content.
        notes: a sentence for each party that left and has stated nothing, and for each party whose
            columns left.
    """

    path: Path
    page: Path
    receipt: Receipt
    notes: Sequence[str]


def checked_receipt(local: LocalDesk, request: str) -> CheckedReceipt:
    """Read and verify the receipt of a request.

    Raises:
        UsageProblem: no request has this ID.
        PolicyError: not every party has signed the receipt yet.
        IntegrityError: the receipt is not valid.
        StorageError: the receipt cannot be read.
    """
    view = view_of(local, request)
    if view.state not in CARRIED_OUT:
        raise PolicyError(
            f"the request {request} has no receipt yet: it is {view.state.value}",
            "see vfl unlearn show; a receipt exists when every party has signed",
        )
    if local.desk.lacks_receipt(view):
        raise StorageError(*lost_receipt(view, local.party.name))
    folder = local.party.state / FOLDER
    path = folder / f"{min(view.batch)}.json"
    try:
        content, trusted = path.read_bytes(), read_trust((folder / TRUST).read_bytes())
    except OSError as error:
        raise StorageError(
            f"cannot read {error.filename}: {error.strerror}",
            "start vfl serve: it writes the receipts of the journal again",
        ) from error
    found = verify_receipt(content, trusted)
    if found.findings or found.receipt is None:
        raise IntegrityError(
            f"{path} is not valid: {'; '.join(each.message for each in found.findings)}",
            "remove the file, and start vfl serve: it writes the receipt again, or says from which "
            "party to copy it",
        )
    return CheckedReceipt(path, path.with_suffix(".html"), found.receipt, found.notes)


def print_receipt(local: LocalDesk, request: str, console: Console) -> None:
    """Verify the receipt of a request, and print the paths of the receipt and of its page.

    Raises:
        PolicyError: not every party has signed the receipt yet.
        IntegrityError: the receipt is not valid.
        StorageError: the receipt cannot be read.
    """
    found = checked_receipt(local, request)
    lines = [f"receipt {found.path}, signed by all parties", f"page    {found.page}"]
    console.print(
        "\n".join([*lines, *found.notes]), event="result", request=request,
        receipt=str(found.path), page=str(found.page), notes=list(found.notes),
    )  # fmt: skip
