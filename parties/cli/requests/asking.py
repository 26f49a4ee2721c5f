"""Commands that make a request: of rows, of other labels, or of a client."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile
from configs.language import LanguageAgreement
from parties.cli.console import Console
from parties.cli.modes import read_runnable
from parties.cli.party_run import federated_mode
from parties.cli.requests.place import (
    Place,
    acting_person,
    local_desk,
    read_keeping,
    read_vertical,
    vertical_desk,
)
from parties.cli.requests.showing import print_request, print_subjects, shown_value
from parties.common.errors import PolicyError, UsageProblem
from parties.data.id_lists import Encoding, ListedIds, list_of_ids, read_id_list, read_label_list
from parties.data.requested_ids import id_columns
from parties.horizontal.service.client_list import ClientList, read_client_list
from parties.requests.events import IdentityCheck, RequestedBody, event_time, new_request_id
from parties.requests.lifecycle import CARRIED_OUT, RequestView, due_date
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import PersonKey, PersonRole
from parties.requests.subjects import Subject, SubjectClass, aligned_rows, classify, count_classes
from parties.session.setup import data_folder
from parties.vertical.kept_model import party_models
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.service.desk import why_not_corrected
from unlearning.receipts.receipt import LegalBasis, RequesterKind

MOST_LINES = 20  # line numbers that are printed for each kind of entry


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
            print_subjects(submitted.subjects, console)
        if submitted.request is None:
            _print_nothing(local, submitted.found, console)
            return
        print_request(local, submitted.request, submitted.new, submitted.found, console)
        if asked.label is not None and agreement.privacy.label_dp is not None:
            console.warn(
                "privacy.label_dp: the request means randomly flipped labels, and no test row, "
                "because labels of test rows are not flipped; name rows by ID to forget all"
            )


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
    # A person who was readmitted, and a class of which a training had new rows, may ask again.
    again = by_rows or _trained_since(local, views, content.classes)
    request, new = local.subjects.submit(content, subjects, person, views, name, again=again)
    local.desk.attend()
    return SubmittedRequest(request, new, found, subjects)


def _trained_since(
    local: VerticalDesk, views: Sequence[RequestView], classes: Sequence[str]
) -> bool:
    """Whether a training made a version after the last request for ``classes`` was carried out."""
    done = [each for each in views if each.state in CARRIED_OUT and each.content.classes == classes]
    last = max((each.version_after or 0 for each in done), default=0)
    trained = [
        each.number
        for each in party_models(local.party).files()
        if each.version is not None and each.version.made_by == "training"
    ]
    return max(trained, default=0) > last


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
            print_subjects(subjects, console)
        if not found["aligned"]:
            _print_nothing(local, found, console)
            return
        content = _content(local, asked, "correction", aligned_rows(subjects, rows), person)
        name, views = new_request_id(local.party.now()), local.desk.requests()
        request, new = local.subjects.submit(content, subjects, person, views, name, again=True)
        local.desk.attend()
        print_request(local, request, new, found, console)


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
                print_subjects(subjects, console)
            if not listing.count:
                _print_nothing(local, found, console)
                return
        name = new_request_id(local.party.now())
        views = local.desk.requests()
        request, new = local.subjects.submit(content, subjects, person, views, name, again=True)
        local.desk.attend()
        print_request(local, request, new, found, console)


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
    today = datetime.now().astimezone().date()  # a day of the local time zone
    if asked.received is not None and asked.received.date() > today:
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
    received = now if asked.received is None else min(now, asked.received.replace(tzinfo=UTC))
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


def _print_nothing(local: LocalDesk, found: dict[str, int], console: Console) -> None:
    console.print(
        f"{shown_value(found)}: the model knows none of these rows, so no request was made",
        event="request",
        request=None,
        party=local.party.name,
        new=False,
        found=found,
    )


def _print_lines(lines: dict[str, list[int]], console: Console) -> None:
    """Print the line numbers of entries that name no row to forget, by what was found."""
    for name, numbers in lines.items():
        shown = ", ".join(map(str, numbers[:MOST_LINES]))
        more = f" and {len(numbers) - MOST_LINES} more" if len(numbers) > MOST_LINES else ""
        text = f"{name.removesuffix('_lines').replace('_', ' ')}: lines {shown}{more}"
        console.print(text, event="lines", found=name, lines=numbers)
