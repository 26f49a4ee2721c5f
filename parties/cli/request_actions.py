"""What the commands of ``vfl unlearn`` do with the requests of one party."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile
from configs.errors import ConfigError
from configs.language import LanguageAgreement
from parties.cli.console import Console
from parties.cli.modes import read_runnable
from parties.cli.party_run import federated_mode
from parties.common.atomic_file import write_atomically
from parties.common.errors import IntegrityError, PolicyError, StorageError, UsageProblem
from parties.data.id_lists import (
    Encoding,
    ListedIds,
    list_of_ids,
    read_id_list,
    read_label_list,
)
from parties.data.party_settings import VerticalConfig
from parties.data.requested_ids import id_columns
from parties.horizontal.service.client_list import ClientList, read_client_list
from parties.requests.events import (
    DecisionBody,
    Event,
    EventKind,
    ExtendedBody,
    IdentityCheck,
    RequestedBody,
    event_time,
    new_request_id,
    parse_time,
)
from parties.requests.lifecycle import (
    CARRIED_OUT,
    ENDED,
    RequestState,
    RequestView,
    due_date,
    in_order,
    latest_extension,
)
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import (
    PersonKey,
    PersonRole,
    decision_message,
    read_person_key,
)
from parties.requests.receipts import FOLDER, TRUST, lost_receipt
from parties.requests.subjects import (
    Subject,
    SubjectClass,
    aligned_rows,
    classify,
    count_classes,
    openings,
)
from parties.session.setup import StartOptions, data_folder
from parties.vertical.kept_model import party_models, present_version
from parties.vertical.offline.local_desk import VerticalDesk, open_local_desk, read_rows
from parties.vertical.service.desk import why_not_corrected
from protocol.errors import IdentityError, RemoteProtocolError
from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.evidence import SubjectOpenings, subject_proof
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import LegalBasis, Receipt, RequesterKind
from unlearning.receipts.verify import verify as verify_receipt

MOST_LINES = 20  # line numbers that are printed for each kind of entry
_UNDECIDED = (RequestState.PENDING, RequestState.RECEIVED)
_BEFORE_START = (*_UNDECIDED, RequestState.AUTHORISED, RequestState.ALIGNED)


@dataclass(frozen=True, slots=True)
class Place:
    """The options that say whose requests a command uses."""

    config: Path
    party: str
    out: Path
    certificates: Path | None
    master_key: Path | None
    changes: list[str]
    data: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a new request."""

    ids: Path | None
    identities: tuple[str, ...]
    label: str | None
    fraction: str
    seed: int
    encoding: Encoding
    ground: str
    received: datetime | None
    identity_check: str
    requester: str
    requested_by: str
    key: Path | None
    lists_ids: bool = False
    everything: bool = False  # all rows of the client
    rows: Path | None = None  # list of row numbers of the client
    texts: Path | None = None  # list of numbers and hashes of texts of the client

    @property
    def lists(self) -> tuple[str, ...]:
        """The given options that list rows."""
        given = {"--ids": self.ids, "--id": self.identities, "--rows": self.rows}
        given["--texts"] = self.texts
        return tuple(name for name, value in given.items() if value)


def read_vertical(place: Place) -> VerticalConfig:
    """Read the config of a command.

    Raises:
        ConfigError: the config is not valid, or its mode keeps no model.
    """
    config = read_runnable(place.config, place.changes, place.party)
    if not isinstance(config.agreement, VerticalAgreement):
        raise ConfigError(
            f"{place.config} is the agreement of a {config.agreement.mode} run, but this command "
            "is for the vertical mode",
            "vfl unlearn --help lists the commands of all modes",
        )
    config.settings(place.party)
    return config


def read_keeping(place: Place) -> ConfigFile[Any, Any]:
    """Read the config of a command, in any mode.

    Raises:
        ConfigError: the config is not valid, or its parties keep no model.
    """
    config = read_runnable(place.config, place.changes, place.party)
    if not isinstance(config.agreement, VerticalAgreement) and (
        config.agreement.requests.keep != "model"
    ):
        raise ConfigError(
            f"{place.config} has requests.keep = 'nothing', so no model is kept for requests",
            "list the requests in the agreement of the run, or set requests.keep = 'model' at all "
            "parties, and train again",
        )
    config.settings(place.party)
    return config


@contextmanager
def local_desk(place: Place, *, attends: bool = True) -> Iterator[LocalDesk]:
    """Open the requests that ``place`` names in a ``with`` block, in any mode.

    Raises:
        ConfigError: the config is not valid, or its parties keep no model.
    """
    config = read_keeping(place)
    if isinstance(config.agreement, VerticalAgreement):
        with vertical_desk(place, attends=attends) as local:
            yield local
        return
    from parties.horizontal.service.desk import open_federated_local_desk

    options = StartOptions(place.out, place.data, place.certificates, master_key=place.master_key)
    with open_federated_local_desk(config, place.party, options, attends=attends) as found:
        yield found


@contextmanager
def vertical_desk(
    place: Place, *, reads_data: bool = False, attends: bool = True
) -> Iterator[VerticalDesk]:
    """Open the requests that ``place`` names in a ``with`` block, in the vertical mode.

    Raises:
        ConfigError: the config is not valid, or is of another mode.
    """
    config = read_vertical(place)
    options = StartOptions(place.out, place.data, place.certificates, master_key=place.master_key)
    how = {"reads_data": reads_data, "attends": attends}
    with open_local_desk(config, place.party, options, **how) as local:
        yield local


def make_request(place: Place, asked: Asked, console: Console) -> None:
    """Journal a request, and print its ID and what was found.

    Raises:
        UsageProblem: the options do not fit together.
        PolicyError: the party's policy needs the key of a person.
    """
    agreement = read_runnable(place.config, place.changes, place.party).agreement
    if not isinstance(agreement, VerticalAgreement):
        make_client_request(place, asked, console)
        return
    _check_asked(asked)
    with vertical_desk(place, reads_data=asked.label is None) as local:
        submitted = submit_request(local, asked)
        if asked.lists_ids:
            _print_subjects(submitted.subjects, console)
        if submitted.request is None:
            _print_nothing(local, submitted.found, console)
            return
        _print_request(local, submitted.request, submitted.new, submitted.found, console)


@dataclass(frozen=True, slots=True)
class SubmittedRequest:
    """A request of the vertical mode, as journaled.

    Attributes:
        request: its ID; None if the model knows none of the rows, so that no request was made.
        new: whether the journal did not have the same request before.
        found: number of listed IDs by what was found; empty for a request by label.
        subjects: the listed IDs.
    """

    request: str | None
    new: bool
    found: dict[str, int]
    subjects: Sequence[Subject]


def submit_request(local: VerticalDesk, asked: Asked) -> SubmittedRequest:
    """Journal a request to forget rows, in the vertical mode; an open desk has read the data.

    Raises:
        PolicyError: the party's policy needs the key of a person.
        DataError: an ID is not an ID of the party's columns.
    """
    by_rows = asked.label is None
    person = _requester(local, asked.key)
    rows, subjects, found = local.kept_rows(), list[Subject](), dict[str, int]()
    if by_rows:
        listed = _listed(local, asked)
        subjects = classify(listed, set(local.party.holding.ids), rows, local.forgotten)
        found = count_classes(subjects)
        found |= {"unusable_lines": len(listed.unusable), "repeated": len(listed.repeated)}
        if not found["aligned"]:
            return SubmittedRequest(None, False, found, subjects)
    part = "label" if asked.fraction == "1" else "labels_part"
    named = aligned_rows(subjects, rows) if by_rows else None
    content = _content(local, asked, "rows" if by_rows else part, named, person)
    views, name = local.desk.requests(), new_request_id(local.party.now())
    request, new = local.subjects.submit(content, subjects, person, views, name)
    local.desk.attend()
    return SubmittedRequest(request, new, found, subjects)


def make_correction(place: Place, labels: Path, asked: Asked, console: Console) -> None:
    """Journal a request to replace labels of the active party, and print its ID.

    Raises:
        PolicyError: this party has no labels, the method cannot replace labels, or the party's
            policy needs the key of a person.
    """
    _check_terms(asked)
    agreement = read_vertical(place).agreement
    if place.party != agreement.active:
        raise PolicyError(
            f"{place.party} has no labels: only {agreement.active} can correct them",
            f"run the command at {agreement.active}",
        )
    if reason := why_not_corrected(agreement):
        raise PolicyError(reason, "change the agreement at all parties, and start them again")
    with vertical_desk(place, reads_data=True) as local:
        person = _requester(local, asked.key)
        settings, rows = local.party.settings.data, local.kept_rows()
        column = getattr(settings, "label", None)
        named = column if isinstance(column, str) else "label"
        classes = agreement.labels.classes
        listed = read_label_list(labels, id_columns(settings), named, classes, asked.encoding)
        subjects, present = [], local.kept_labels()
        held = set(local.party.holding.ids)
        for each, label in zip(
            classify(listed.listed, held, rows, local.forgotten), listed.labels, strict=True
        ):
            if present.get(each.id) != label:
                known = each.found is SubjectClass.ALIGNED  # of other rows, no label is kept
                subjects.append(replace(each, label=label) if known else each)
        found = count_classes(subjects)
        found |= {
            "unchanged": len(listed.labels) - len(subjects),
            "unusable_lines": len(listed.listed.unusable),
            "repeated": len(listed.listed.repeated),
        }
        if asked.lists_ids:
            _print_subjects(subjects, console)
        if not found["aligned"]:
            _print_nothing(local, found, console)
            return
        content = _content(local, asked, "correction", aligned_rows(subjects, rows), person)
        name, views = new_request_id(local.party.now()), local.desk.requests()
        request, new = local.subjects.submit(content, subjects, person, views, name, again=True)
        local.desk.attend()
        _print_request(local, request, new, found, console)


def _requester(local: LocalDesk, key: Path | None) -> PersonKey | None:
    """Return the key of the person who makes a request, if the policy allows it.

    Raises:
        PolicyError: the policy needs the key of a person.
    """
    person = acting_person(local, key, PersonRole.REQUESTER)
    if local.party.agreement.requests.separate_persons and person is None:
        raise PolicyError(
            "the agreement has requests.separate_persons, so the requester must sign",
            "give --key FILE with the private key of the requester",
        )
    return person


def make_client_request(place: Place, asked: Asked, console: Console) -> None:
    """Journal a request of a run with a server: rows of this client, or of a class at all clients.

    Raises:
        UsageProblem: the options do not fit together, or do not fit the party.
        PolicyError: the party's policy needs the key of a person.
    """
    config = read_keeping(place)
    _check_client_asked(config, place.party, asked)
    with local_desk(place) as local:
        at_client = local.party.name != local.desk.rules.hub
        person = _requester(local, asked.key)
        kind = "client" if at_client else ("label" if asked.fraction == "1" else "labels_part")
        content = _content(local, asked, kind, None, person)
        subjects: Sequence[Subject] = ()
        found: dict[str, int] = {}
        if asked.lists:
            listing = _client_list(local, config, place, asked)
            subjects, found = listing.subjects, listing.found
            content = content.model_copy(update={"count": listing.count})
            _print_lines(listing.lines, console)
            if asked.lists_ids:
                _print_subjects(subjects, console)
            if not listing.count:
                _print_nothing(local, found, console)
                return
        name = new_request_id(local.party.now())
        views = local.desk.requests()
        request, new = local.subjects.submit(content, subjects, person, views, name, again=True)
        local.desk.attend()
        _print_request(local, request, new, found, console)


def _check_client_asked(config: ConfigFile[Any, Any], party: str, asked: Asked) -> None:
    """Refuse options of a request that do not fit together, or the mode, in a run with a server."""
    if asked.everything + (asked.label is not None) + len(asked.lists) != 1:
        raise UsageProblem(
            "expected exactly one of --everything, --label NAME and a list of rows or texts",
            "give --everything to forget the rows of this client",
        )
    if asked.label is None and party == config.agreement.hub:
        raise UsageProblem(
            f"{party} is the server, which has no rows",
            "make the request at the client whose rows are forgotten",
        )
    if asked.lists and (asked.fraction != "1" or asked.seed):
        raise UsageProblem(
            "--fraction and --seed work only with --label or --everything",
            "omit --fraction and --seed",
        )
    data, given = config.settings(party), next(iter(asked.lists), "")
    in_texts = isinstance(config.agreement, LanguageAgreement)
    if given and in_texts is not (given == "--texts"):
        raise UsageProblem(
            f"{given} does not fit the {config.agreement.mode} mode, which forgets "
            + ("texts" if in_texts else "rows"),
            "give --texts FILE" if in_texts else "give --rows FILE or --ids FILE",
        )
    if given == "--rows" and id_columns(data.data):
        raise UsageProblem(
            f"the rows of {party} have IDs, which do not change when the data file does",
            "give --ids FILE with the IDs of the rows",
        )
    _check_terms(asked)


def _client_list(
    local: LocalDesk, config: ConfigFile[Any, Any], place: Place, asked: Asked
) -> ClientList:
    """Read the list of a client, and find its rows.

    Raises:
        DataError: the list or the client's data cannot be read.
    """
    settings = config.settings(place.party)
    folder = data_folder(config.path, settings, place.data)
    rows = federated_mode(config).own_rows(config, place.party, folder)
    numbers = asked.rows or asked.texts
    if numbers is not None:
        listed = read_id_list(numbers, (), asked.encoding).translate(rows.row_of)
    else:
        listed = _listed(local, asked)
    return read_client_list(listed, rows, local.forgotten)


def list_requests(local: LocalDesk, console: Console) -> None:
    """Print one line for each request."""
    for view in local.desk.requests():
        fields = _fields(local, view)
        kind = f"{view.content.kind} {view.content.party or view.content.columns or ''}"
        console.print(
            f"{view.id}  {view.state.value:11}  due {fields['due_at'][:10]}  "
            f"{kind:11}  {_row_count(view):>7} rows  from {view.origin}" + _alarm(fields),
            event="request",
            **fields,
        )


def show_request(local: LocalDesk, request: str, console: Console, *, with_ids: bool) -> None:
    """Print what is known about one request; with ``with_ids``, also its IDs and their classes.

    The names of columns that left are printed at their owner only.

    Raises:
        StorageError: this party has no IDs of the request.
    """
    view = view_of(local, request)
    fields = _fields(local, view) | _own_fields(local, view)
    subjects = local.subjects.of(view.id)
    if subjects is not None:
        vertical = isinstance(local.party.agreement, VerticalAgreement)
        unused = SubjectClass.NOT_TRAINED if vertical else SubjectClass.NOT_COMMON
        fields |= {"found": count_classes(subjects, unused)}
    lines = [f"{name.replace('_', ' ')}: {_shown(value)}" for name, value in fields.items()]
    console.print("\n".join(lines), event="request", **fields)
    if local.desk.lacks_receipt(view):
        console.warn("; ".join(lost_receipt(view, local.party.name)))
    if with_ids:
        if subjects is None:
            raise StorageError(
                f"this party has no IDs of the request {view.id}",
                f"only {view.origin} has the IDs, until its record is purged",
            )
        _print_subjects(subjects, console)


def _own_fields(local: LocalDesk, view: RequestView) -> dict[str, Any]:
    """What only this party knows of a request: the file of its receipt, and names of columns."""
    path = local.party.state / FOLDER / f"{min(view.batch, default=view.id)}.json"
    known = view.state in CARRIED_OUT and path.exists()
    fields: dict[str, Any] = {"receipt_file": str(path) if known else None}
    if isinstance(local, VerticalDesk) and (names := local.columns_that_left(view)):
        fields["column_names"] = names
    return fields


def _print_subjects(subjects: Iterable[Subject], console: Console) -> None:
    for each in subjects:
        console.print(
            f"{each.found.value}  {each.text}",
            event="subject",
            found=each.found.value,
            id=each.text,
        )


def _print_lines(lines: dict[str, list[int]], console: Console) -> None:
    """Print the line numbers of entries that name no row to forget, by what was found."""
    for name, numbers in lines.items():
        shown = ", ".join(map(str, numbers[:MOST_LINES]))
        more = f" and {len(numbers) - MOST_LINES} more" if len(numbers) > MOST_LINES else ""
        text = f"{name.removesuffix('_lines').replace('_', ' ')}: lines {shown}{more}"
        console.print(text, event="lines", found=name, lines=numbers)


def decide(
    local: LocalDesk,
    kind: EventKind,
    request: str,
    reason: str,
    key: Path | None,
    console: Console,
) -> None:
    """Approve or reject a request for this party.

    Raises:
        PolicyError: the request is decided already, or this person may not decide.
    """
    view, party = view_of(local, request), local.party.name
    person = acting_person(local, key, PersonRole.APPROVER)
    decided = party in view.approvals | view.rejected_by
    if decided or view.state not in _UNDECIDED:
        raise PolicyError(
            f"{party} cannot decide about the request {view.id}: it is {view.state.value}"
            + (f", and {party} has decided already" if decided else ""),
            "the first decision of a party stands; its requester can withdraw a request before it "
            "is carried out",
        )
    if kind is EventKind.APPROVED:
        _refuse_same_person(local, view, person)
    _append_decision(local, kind, view, reason, person)
    _print_state(local, view.id, kind.value, console)


def withdraw(
    local: LocalDesk, request: str, reason: str, key: Path | None, console: Console
) -> None:
    """Withdraw a request of this party.

    Raises:
        PolicyError: another party made the request, or it is being carried out.
    """
    view = own_view(local, request)
    person = acting_person(local, key, PersonRole.REQUESTER)
    if view.state not in _BEFORE_START:
        raise PolicyError(
            f"the request {view.id} is {view.state.value} and cannot be withdrawn",
            "a request can be withdrawn until it is carried out",
        )
    _append_decision(local, EventKind.WITHDRAWN, view, reason, person)
    _print_state(local, view.id, "withdrawn", console)


def extend(
    local: LocalDesk,
    request: str,
    dates: tuple[datetime, datetime],
    reason: str,
    key: Path | None,
    console: Console,
) -> None:
    """Move the due date of a request of this party.

    Args:
        local: the requests of the party.
        request: ID of the request.
        dates: the new due date, and the day on which the requester was informed.
        reason: the reason.
        key: file with the key of the person who acts.
        console: prints the result.

    Raises:
        PolicyError: the request has ended, is due already, or the new date is too late.
    """
    view = own_view(local, request)
    acting_person(local, key, PersonRole.REQUESTER)
    first, until = parse_time(view.content.due_at), dates[0].replace(tzinfo=UTC)
    latest = latest_extension(view.received_at, first)
    if not view.open or local.party.now() > first:
        raise PolicyError(
            f"the due date of the request {view.id} cannot be moved: the request is "
            f"{view.state.value} and was due on {first:%Y-%m-%d}",
            "the due date of an open request can be moved until it has passed",
        )
    if not view.due_at < until <= latest:
        raise PolicyError(
            f"the new due date is {until:%Y-%m-%d}; expected a date after {view.due_at:%Y-%m-%d} "
            f"and not after {latest:%Y-%m-%d}",
            "the due date can be moved by at most two months",
        )
    notice = f"{dates[1]:%Y-%m-%d}"
    body = ExtendedBody(until=event_time(until), notice=notice, reason=reason)
    local.desk.append(EventKind.EXTENDED, view.id, body)
    _print_state(local, view.id, "extended", console)


def print_status(local: LocalDesk, console: Console) -> None:
    """Print how many requests are in each state, frozen rows, and reminders.

    Reminders are of due dates, and of those who are to be informed about a request.
    """
    views = local.desk.requests()
    states = Counter(view.state.value for view in views)
    frozen = len(local.desk.frozen_rows(present_version(party_models(local.party))))
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    console.print(
        f"{len(views)} requests" + (f": {words}" if words else "") + f"; {frozen} frozen rows",
        event="status",
        requests=len(views),
        states=dict(sorted(states.items())),
        frozen_rows=frozen,
    )
    for view in views:
        fields = _fields(local, view)
        if fields["reminder"] is not None or view.clock_anomaly:
            console.print(
                f"{view.id}  {view.state.value}  due {fields['due_at'][:10]}{_alarm(fields)}",
                event="reminder",
                **fields,
            )
        if any(local.desk.to_inform(view)):
            console.print(
                f"{view.id}  {view.state.value}  due {fields['due_at'][:10]}  "
                f"{still_to_inform(local, view)}: see vfl unlearn notify {view.id}",
                event="to_inform",
                **fields,
            )


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
                "name an unchanged file of vfl unlearn export --journal, or of vfl leave, of this "
                "federation",
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


def purge(
    place: Place, local: LocalDesk, request: str | None, key: Path | None, console: Console
) -> None:
    """Delete the private record of one request, or of all whose retention has ended.

    Raises:
        PolicyError: the request has not ended, recipients are still to be notified of it, this
            party has no private record of it, or its data still has a label that the request
            replaced.
    """
    acting_person(local, key, PersonRole.OPERATOR)
    views = [_recorded_view(local, request)] if request else _past_retention(local)
    waiting = _uncorrected(place, local, [each for each in views if each.corrects])
    if request and waiting:
        raise PolicyError(
            f"the data of {place.party} still has {waiting[views[0].id]} labels that the request "
            f"{views[0].id} replaced",
            "correct the labels in the data before the record of the request is purged",
        )
    for name, count in waiting.items():
        console.print(
            f"kept {name}: the data still has {count} labels that it replaced",
            event="kept",
            request=name,
            labels=count,
        )
    views = [each for each in views if each.id not in waiting]
    for view in views:
        local.subjects.purge(view)
        if view.state in CARRIED_OUT:
            local.desk.renew_page(view)  # without the names of recipients
        console.print(f"purged {view.id}", event="purged", request=view.id)
    if not views:
        console.print("no record to purge", event="purged", request=None)


def _uncorrected(place: Place, local: LocalDesk, views: Sequence[RequestView]) -> dict[str, int]:
    """Return how many labels the data still has that each of some corrections has replaced.

    A later training reads the labels in the data once the records are gone. The last correction of
    a row counts.
    """
    if not any(each.state in CARRIED_OUT for each in views):
        return {}
    config = read_vertical(place)
    rows = read_rows(config, place.party, StartOptions(place.out, place.data, place.certificates))
    classes = config.agreement.labels.classes
    held = {} if rows.labels is None else dict(zip(rows.ids, rows.labels.tolist(), strict=True))
    done = [each for each in local.desk.requests() if each.corrects and each.state in CARRIED_OUT]
    named = {each.id: local.subjects.of(each.id) or [] for each in in_order(done)}
    last = {each.id: each.label for subjects in named.values() for each in subjects if each.label}
    right = {each: classes.index(label) for each, label in last.items()}
    wrong = {each for each, label in right.items() if held.get(each, label) != label}
    found = {view.id: sum(each.id in wrong for each in named.get(view.id, ())) for view in views}
    return {name: count for name, count in found.items() if count}


def readmit(
    place: Place, identities: list[str], reason: str, key: Path | None, console: Console
) -> None:
    """Accept forgotten IDs again, in the vertical mode."""
    with vertical_desk(place) as local:
        acting_person(local, key, PersonRole.APPROVER)
        listed = list_of_ids(identities, id_columns(local.party.settings.data))
        count = local.forgotten.readmit(local.desk.journal, listed.ids, reason)
    console.print(
        f"{count} IDs readmitted, {len(listed) - count} were not on the list of forgotten IDs",
        event="readmitted",
        readmitted=count,
        not_listed=len(listed) - count,
    )


def _check_asked(asked: Asked) -> None:
    """Refuse options of a request that do not fit together, in the vertical mode."""
    if asked.everything or asked.rows or asked.texts:
        raise UsageProblem(
            "--everything, --rows and --texts are for a client of a run with a server",
            "give --ids FILE with the IDs to forget",
        )
    ways = [asked.ids is not None, bool(asked.identities), asked.label is not None]
    if sum(ways) != 1:
        raise UsageProblem(
            "expected exactly one of --ids FILE, --id TEXT and --label NAME",
            "give --ids FILE with the IDs to forget",
        )
    if asked.label is None and (asked.fraction != "1" or asked.seed):
        raise UsageProblem(
            "--fraction and --seed work only with --label", "omit --fraction and --seed"
        )
    _check_terms(asked)


def _check_terms(asked: Asked) -> None:
    """Refuse options of a request that no mode accepts."""
    if asked.ground not in [*LegalBasis]:
        raise UsageProblem(
            f"--ground {asked.ground[:40]} is unknown", f"give one of {', '.join(LegalBasis)}"
        )
    if asked.received is not None and asked.received.replace(tzinfo=UTC) > datetime.now(UTC):
        raise UsageProblem("--received lies in the future", "give the day of receipt")
    if asked.identity_check and not all(asked.identity_check.partition("/")):
        raise UsageProblem(
            "--identity-check has not the form METHOD/NAME",
            "give for example --identity-check passport/front-office",
        )


def _listed(local: LocalDesk, asked: Asked) -> ListedIds:
    columns = id_columns(local.party.settings.data)  # type: ignore[attr-defined]
    if asked.ids is None:
        return list_of_ids(asked.identities, columns)
    return read_id_list(asked.ids, columns, asked.encoding)


def _content(
    local: LocalDesk,
    asked: Asked,
    kind: str,
    rows: tuple[int, ...] | None,
    person: PersonKey | None,
) -> RequestedBody:
    """Return the content of the request; it contains no ID.

    Raises:
        UsageProblem: the label is no class of the agreement.
    """
    agreement, now = local.party.agreement, local.party.now()
    labels = getattr(agreement, "labels", None)
    single = getattr(labels, "task", "classification") == "classification"
    classes = labels.classes if labels is not None and single else ()
    if asked.label is not None and asked.label not in classes:
        raise UsageProblem(
            f"--label {asked.label[:40]} is no class of the agreement",
            f"the classes are {', '.join(classes)}"
            if classes
            else "its labels are not one of several classes: name the rows by ID",
        )
    received = now if asked.received is None else asked.received.replace(tzinfo=UTC)
    method, _, by = asked.identity_check.partition("/")
    check = IdentityCheck(method=method, date=f"{now:%Y-%m-%d}", by=by) if method else None
    return RequestedBody(
        kind=kind,  # type: ignore[arg-type]
        rows=rows,
        classes=() if asked.label is None else (asked.label,),
        fraction=asked.fraction,
        seed=asked.seed,
        ground=asked.ground,
        identity_check=check,
        received_at=event_time(received),
        due_at=event_time(due_date(received, agreement.requests.due_days)),
        requester_name=asked.requester or (person.name if person else ""),
        requester_kind=RequesterKind(asked.requested_by).value,
    )


def acting_person(local: LocalDesk, path: Path | None, role: PersonRole) -> PersonKey | None:
    """Return the key of the person who acts, if the policy allows the action.

    Raises:
        PolicyError: the policy does not allow the action.
    """
    key = None if path is None else read_person_key(path)
    if key is not None and local.policy.automatic and not local.policy.persons:
        return key  # the party lists no persons: the key only signs
    return local.policy.acting(key, role)


def _refuse_same_person(local: LocalDesk, view: RequestView, person: PersonKey | None) -> None:
    """Refuse an approval that another person must make."""
    requester = view.content.requester
    if not local.party.agreement.requests.separate_persons:
        return
    if person is None and view.origin == local.party.name:
        raise PolicyError(
            "the agreement has requests.separate_persons, so a person must approve the request",
            "give --key FILE with the private key of another person than the requester",
        )
    if person is not None and requester is not None and person.public == requester.key:
        raise PolicyError(
            f"{person.name} made the request {view.id} and may not approve it",
            "another person must approve the request",
        )


def _append_decision(
    local: LocalDesk, kind: EventKind, view: RequestView, reason: str, person: PersonKey | None
) -> None:
    asked: Event = next(
        event for event in local.desk.journal.events(view.id) if event.kind is EventKind.REQUESTED
    )
    message = decision_message(kind, asked, reason)
    signature = None if person is None else person.sign(message)
    local.desk.append(kind, view.id, DecisionBody(reason=reason, person=signature))


def view_of(local: LocalDesk, request: str) -> RequestView:
    """Return the request with this ID.

    Raises:
        UsageProblem: no request has the ID.
    """
    for view in local.desk.requests():
        if view.id == request:
            return view
    raise UsageProblem(
        f"no request has the ID {request[:40]}", "vfl unlearn list shows the IDs of all requests"
    )


def own_view(local: LocalDesk, request: str) -> RequestView:
    """Return the request with this ID, which was made at this party.

    Raises:
        UsageProblem: no request has the ID.
        PolicyError: another party made the request.
    """
    view = view_of(local, request)
    if view.origin != local.party.name:
        raise PolicyError(
            f"the request {view.id} was made at {view.origin}", f"ask {view.origin} to do this"
        )
    return view


def _recorded_view(local: LocalDesk, request: str) -> RequestView:
    """Return a request of which this party has a private record that may be purged."""
    view = view_of(local, request)
    if not _has_record(local, view):
        return own_view(local, request)
    recipients, _ = local.desk.to_inform(view)
    if recipients:
        raise PolicyError(
            f"the record of the request {view.id} is still needed: the number of recipients of the "
            f"data to notify is {recipients}",
            "record the results with vfl unlearn notify first",
        )
    return view


def _has_record(local: LocalDesk, view: RequestView) -> bool:
    own = view.origin == local.party.name
    return own or local.desk.notifications.of(view.id) is not None


def _past_retention(local: LocalDesk) -> list[RequestView]:
    """Return ended requests with a private record whose last event is older than the retention."""
    days = local.party.settings.requests.retention_days
    before = event_time(local.party.now() - timedelta(days=days))
    last: dict[str, str] = {}
    for event in local.desk.journal.events():
        last[event.request] = max(event.time, last.get(event.request, ""))
    return [
        view
        for view in local.desk.requests()
        if view.state in ENDED | CARRIED_OUT
        and local.party.name not in view.purged
        and last[view.id] < before
        and _has_record(local, view)
        and not local.desk.to_inform(view)[0]
    ]


def _fields(local: LocalDesk, view: RequestView) -> dict[str, Any]:
    """Return a view as JSON; it contains no ID of a subject."""
    now, content = local.party.now(), view.content
    return {
        "request": view.id,
        "state": view.state.value,
        "origin": view.origin,
        "kind": content.kind,
        "leaves": content.party,
        "columns": content.columns,
        "classes": list(content.classes),
        "rows": None if _row_count(view) == "?" else int(_row_count(view)),
        "ground": content.ground,
        "requester": content.requester_name,
        "received_at": event_time(view.received_at),
        "due_at": event_time(view.due_at),
        "extended": view.extended,
        "reminder": view.reminder(now),
        "expired": view.expired(now),
        "journaled": sorted(view.journaled),
        "approvals": sorted(view.approvals),
        "rejected_by": sorted(view.rejected_by),
        "reason": view.reason,
        "method": view.method,
        "fallback": None
        if view.fallback is None
        else {"version": view.fallback.version, "absent": list(view.fallback.absent)},
        "version_before": view.version_before,
        "version_after": view.version_after,
        "receipt": view.receipt,
        "signatures": sorted(view.signatures),
        "clock_anomaly": view.clock_anomaly,
        "ignored_events": view.ignored,
        "purged": sorted(view.purged),
        "notified": {
            name: {"recipients": each.recipients, "failed": each.failed}
            for name, each in sorted(view.notified.items())
        },
    }


def still_to_inform(local: LocalDesk, view: RequestView) -> str:
    """Return in words whom this party still has to inform about a request; empty if nobody."""
    recipients, requester = local.desk.to_inform(view)
    words = [f"recipients of the data to notify: {recipients}"] if recipients else []
    words += ["the requester is to be informed"] if requester else []
    return ", ".join(words)


def _row_count(view: RequestView) -> str:
    if view.count is not None:
        return str(view.count)
    if view.content.count is not None:
        return str(view.content.count)
    if view.rows is None or view.content.kind == "client":
        return "?"
    return str(len(view.rows))


def _alarm(fields: dict[str, Any]) -> str:
    """Return the end of a line: how much of the time to the due date has passed."""
    words = []
    if fields["expired"]:
        words.append("PAST DUE")
    elif fields["reminder"] is not None:
        words.append(f"{fields['reminder']} % of the time has passed")
    if fields["clock_anomaly"]:
        words.append("the clock of a party was set back")
    return "".join(f"  {each}" for each in words)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        parts = [
            f"{name} ({_shown(each)})"
            if isinstance(each, dict)
            else f"{_shown(each)} {name.replace('_', ' ')}"
            for name, each in value.items()
        ]
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _print_nothing(local: LocalDesk, found: dict[str, int], console: Console) -> None:
    console.print(
        f"{_shown(found)}: the model knows none of these rows, so no request was made",
        event="request",
        request=None,
        party=local.party.name,
        new=False,
        found=found,
    )


def _print_request(
    local: LocalDesk, request: str, new: bool, found: dict[str, int], console: Console
) -> None:
    view = view_of(local, request)
    words = f"{_shown(found)}\n" if found else ""
    same = "" if new else " (the same request exists already)"
    console.print(
        f"{words}request {request}{same}: {view.state.value}, due {view.due_at:%Y-%m-%d}",
        event="request",
        request=request,
        party=local.party.name,
        new=new,
        found=found,
        state=view.state.value,
        due_at=event_time(view.due_at),
    )


def _print_state(local: LocalDesk, request: str, action: str, console: Console) -> None:
    view = view_of(local, request)
    console.print(
        f"{action} {request}: {view.state.value}, due {view.due_at:%Y-%m-%d}",
        event=action,
        request=request,
        state=view.state.value,
        due_at=event_time(view.due_at),
    )
