"""What a passive party does that leaves: it erases its part of the model, and states so."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from parties.common.atomic_file import sync_folder, write_atomically
from parties.common.errors import IntegrityError, PolicyError, StorageError
from parties.requests.events import Event, EventKind, LeftBody, StoredItem, new_request_id
from parties.requests.local_desk import LocalDesk
from parties.requests.receipts import departure_of
from parties.session.saved_model import FILES, remove_saved_model
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import party_models, present_version
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.offline.rollback import refuse_open_views
from parties.vertical.privacy.ledger import FOLDER, LEDGER_FILES
from parties.vertical.resume import CHECKPOINTS
from parties.vertical.service.replay_window import model_item

PLAN = "leaving.txt"  # in the party's folder while it leaves: ID and content of its statement


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a party erases when it leaves.

    Attributes:
        statement: ID of the event with the statement.
        version: number of the newest version of which the party had a part; 0 if it had none.
        items: what the statement names, also what an interrupted call erased before; empty if all
            is erased and stated already.
        folders: folders to remove.
        files: files to remove, beside those of the kept and the saved model.
    """

    statement: str
    version: int
    items: tuple[StoredItem, ...]
    folders: tuple[Path, ...]
    files: tuple[Path, ...]


def plan_leaving(local: VerticalDesk) -> Leaving:
    """Return what the party erases when it leaves.

    Raises:
        PolicyError: the party is the active one, or requests are open.
    """
    party = local.party
    if party.name == party.agreement.active:
        raise PolicyError(
            f"{party.name} is the active party: without it there is no federation",
            "only a passive party leaves; vfl models remove --all erases the kept model",
        )
    refuse_open_views(local.desk.requests())
    checkpoints, psi = party.state / CHECKPOINTS, party.state / PSI
    folder = party.state / FOLDER
    released = tuple(
        each
        for each in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if each.name not in LEDGER_FILES
    )
    items = [model_item(number, kind) for number, kind in party_models(party).contents()]
    found = {
        ("saved-model", "model"): any((party.state / each).exists() for each in FILES),
        ("unfinished-training", "checkpoint"): checkpoints.is_dir(),
        ("intersection", "codes"): psi.is_dir(),
        ("released-embeddings", "embeddings"): bool(released),
    }
    items += [
        StoredItem.model_validate({"id": name, "kind": kind})
        for (name, kind), exists in found.items()
        if exists
    ]
    folders = tuple(each for each in (checkpoints, psi) if each.is_dir())
    name, body = _body(local, tuple(items))
    return Leaving(name, body.version, body.destroyed, folders, released)


def _body(local: VerticalDesk, found: tuple[StoredItem, ...]) -> tuple[str, LeftBody]:
    """The ID and the content of the statement; without items if all is stated already.

    The items are those that were ``found``, and those that an interrupted call has erased.
    """
    party, events = local.party, list(local.desk.journal.events())
    present = present_version(party_models(party))
    stated = {each.request for each in events if each.origin == party.name}
    made = departure_of(party.name, events, present)
    earlier: LeftBody | None
    if (interrupted := _read_plan(party)) and interrupted[0] not in stated:
        name, earlier = interrupted
    elif made.statement is not None and not found:
        return made.statement.request, LeftBody(version=present, destroyed=())
    else:
        name = new_request_id(party.now())
        body = None if made.statement is None else made.statement.body
        earlier = LeftBody.model_validate_json(json.dumps(body)) if body else None
    if earlier is None or earlier.version < present:
        return name, LeftBody(version=present, destroyed=found)
    more = tuple(each for each in found if each not in earlier.destroyed)
    return name, LeftBody(version=earlier.version, destroyed=earlier.destroyed + more)


def _read_plan(party: VerticalParty) -> tuple[str, LeftBody] | None:
    """The ID and the content of the statement that an interrupted call was to make; or None.

    Raises:
        IntegrityError: the file of the plan is damaged.
    """
    path = party.state / PLAN
    if not path.exists():
        return None
    try:
        name, _, body = path.read_text().partition("\n")
        return name, LeftBody.model_validate_json(body)
    except ValueError as error:
        raise IntegrityError(
            f"{path} is damaged, so it is not known what was erased",
            "remove it; the statement then names only what is left to erase",
        ) from error


def leave(local: VerticalDesk, plan: Leaving, statement: Path) -> int:
    """Erase the party's part (keys first), then sign what was erased, and write this to a file.

    The statement is signed last, so no other party receives it before it is true. What is to be
    erased is written down first, so after a crash the same call goes on, and the statement names
    all. The journal, the receipts, the signing key and the record of noise that was spent stay.

    Returns:
        The number of events in the file.

    Raises:
        StorageError: a file cannot be erased or written, or the statement would replace another
            file; the latter is found before anything is erased.
    """
    party, desk = local.party, local.desk
    _refuse_place(statement, party.name)
    path, body = party.state / PLAN, LeftBody(version=plan.version, destroyed=plan.items)
    stated = {each.request for each in _own_events(local)}
    if plan.statement not in stated:
        write_atomically(path, f"{plan.statement}\n{body.model_dump_json()}".encode())
    _erase(local, plan)
    if plan.statement not in stated:
        desk.append(EventKind.LEFT, plan.statement, body)
    path.unlink(missing_ok=True)
    records = [each.encode() for each in _own_events(local)]
    write_atomically(statement, b"".join(each + b"\n" for each in records))
    return len(records)


def _refuse_place(statement: Path, party: str) -> None:
    """Refuse a file that cannot be made, or that is no earlier statement of this party."""
    if not statement.parent.is_dir():
        raise StorageError(
            f"cannot write {statement}: {statement.parent} is no folder", "name an existing folder"
        )
    if statement.exists() and not _is_statement(statement, party):
        raise StorageError(
            f"{statement} exists, and is no statement of {party}", "name another file"
        )


def _is_statement(path: Path, party: str) -> bool:
    try:
        events = [Event.decode(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError):
        return False
    return bool(events) and all(each.origin == party for each in events)


def _erase(local: VerticalDesk, plan: Leaving) -> None:
    store, state = party_models(local.party), local.party.state
    store.prune(store.next_number(), versions=True)
    remove_saved_model(state)
    try:
        for folder in plan.folders:
            rmtree(folder)
        for file in plan.files:
            file.unlink(missing_ok=True)
            sync_folder(file.parent)
        sync_folder(state)
    except OSError as error:
        raise StorageError(
            f"cannot erase {error.filename}: {error.strerror}",
            "remove it, then start vfl leave again",
        ) from error


def _own_events(local: LocalDesk) -> Iterator[Event]:
    return (each for each in local.desk.journal.events() if each.origin == local.party.name)
