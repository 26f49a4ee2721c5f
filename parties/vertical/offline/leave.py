"""What a passive party does that leaves: it erases its part of the model, and states so."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from parties.common.atomic_file import sync_folder, write_atomically
from parties.common.errors import PolicyError, StorageError
from parties.requests.events import Event, EventKind, LeftBody, StoredItem, new_request_id
from parties.requests.local_desk import LocalDesk
from parties.requests.receipts import departure_of
from parties.session.saved_model import FILES, remove_saved_model
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.kept_model import party_models, present_version
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.offline.rollback import refuse_open_views
from parties.vertical.privacy.ledger import FOLDER, LEDGER_FILES
from parties.vertical.resume import CHECKPOINTS
from parties.vertical.service.replay_window import model_item


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a party erases when it leaves.

    Attributes:
        items: what the statement names.
        folders: folders to remove.
        files: files to remove, beside those of the kept and the saved model.
    """

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
    return Leaving(tuple(items), folders, released)


def leave(local: VerticalDesk, plan: Leaving, statement: Path) -> int:
    """Sign what is erased, erase it (keys first), and write the signed statement to a file.

    The file is written last, so a statement that leaves this machine is true. After a crash the
    same call goes on. The journal, the receipts, the signing key and the record of noise that was
    spent stay.

    Returns:
        The number of events in the file.

    Raises:
        StorageError: a file cannot be erased or written.
    """
    party, desk = local.party, local.desk
    if departure_of(party.name, desk.journal.events()).statement is None:
        store = party_models(party)
        body = LeftBody(version=present_version(store), destroyed=plan.items)
        desk.append(EventKind.LEFT, new_request_id(party.now()), body)
    _erase(local, plan)
    records = [each.encode() for each in _own_events(local)]
    write_atomically(statement, b"".join(each + b"\n" for each in records))
    return len(records)


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
