"""Going back to an earlier version of the kept model, and erasing versions, at one party."""

from collections.abc import Sequence

from parties.common.errors import PolicyError, StorageError
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestView
from parties.requests.local_desk import LocalDesk
from parties.session.saved_model import remove_saved_model
from parties.session.store.model_store import ModelStore, StoredFile
from parties.vertical.kept_model import kept_ids, party_models
from parties.vertical.offline.local_desk import VerticalDesk


def roll_back(local: VerticalDesk, number: int) -> list[int]:
    """Make version ``number`` the newest one at this party; newer files are erased, key first.

    The saved model is removed, too; ``vfl serve`` writes that of the version at its next start.

    Returns:
        The numbers of the erased files.

    Raises:
        StorageError: there is no such version, or it cannot be read.
        PolicyError: the version is the newest already, or knows forgotten rows.
    """
    store = party_models(local.party)
    files = store.files()
    version = _version(store, files, number)
    newer = [each.number for each in files if each.number > number]
    if not newer:
        raise PolicyError(
            f"version {number} is the newest one already", "vfl models list shows all versions"
        )
    refuse_forgotten_rows(local, store, version)
    remove_saved_model(local.party.state)
    store.prune(number, number)
    return newer


def remove_versions(local: LocalDesk, number: int | None) -> list[int]:
    """Erase one version, or all files if ``number`` is None; keys first.

    Returns:
        The numbers of the erased files.

    Raises:
        StorageError: there is no such version.
        PolicyError: the version is in use, or requests that need the model are open.
    """
    store = party_models(local.party)
    files = store.files()
    if number is None:
        refuse_open_views(local.desk.requests())
        gone = [each.number for each in files]
        store.prune(1 + max(gone, default=0), versions=True)
        return gone
    if number not in {each.number for each in files}:
        raise _absent(store, files, number)
    newest = store.newest_version()
    if newest is not None and number >= newest.number:
        raise PolicyError(
            f"version {newest.number} is the one that vfl serve uses, so {number} cannot be erased",
            "go back to another version with vfl models rollback, or give --all",
        )
    store.erase(number)
    return [number]


def refuse_forgotten_rows(local: VerticalDesk, store: ModelStore, version: StoredFile) -> None:
    """Check that a version knows no row that was forgotten, or that a request names.

    Raises:
        PolicyError: the version knows such rows, or that cannot be excluded.
    """
    ids = kept_ids(store, version.number)
    live = [each for each in ids if each]
    known = len(local.forgotten.among(live))
    reason = f"it knows {known} rows that were forgotten" if known else ""
    newest = store.newest_version()
    same_run = newest is not None and newest.run == version.run
    present = ids if newest is None or same_run else kept_ids(store, newest.number)
    for view in local.desk.requests():
        if view.state in ENDED or reason:
            continue
        if view.state in CARRIED_OUT and not same_run:
            continue  # the list of forgotten IDs has its rows
        if view.rows is None:
            reason = f"the rows of the request {view.id} are not known yet"
        elif rows := _known(view, present, set(live)):
            reason = f"it knows {rows} rows of the request {view.id} ({view.state.value})"
        elif view.rows and not same_run:
            reason = f"the request {view.id} is open, and the version numbers its rows otherwise"
    if reason:
        raise PolicyError(
            f"version {version.number} cannot be used again: {reason}",
            "only a version without these rows can be used; vfl models list shows all versions",
        )


def _known(view: RequestView, ids: Sequence[bytes], live: set[bytes]) -> int:
    """How many rows of a request a version has; ``ids`` are IDs by the request's indices."""
    return sum(1 for row in view.rows or () if row < len(ids) and ids[row] in live)


def _version(store: ModelStore, files: Sequence[StoredFile], number: int) -> StoredFile:
    found = next((each for each in files if each.number == number), None)
    if found is None:
        raise _absent(store, files, number)
    if found.fault:
        raise StorageError(
            f"version {number} cannot be read: {found.fault}",
            "restore the folder and the key file from the same backup",
        )
    if found.version is None:
        raise StorageError(
            f"{number} is a checkpoint of a request that is being carried out, no version",
            "name a version that vfl models list shows",
        )
    return found


def _absent(store: ModelStore, files: Sequence[StoredFile], number: int) -> StorageError:
    listed = ", ".join(str(each.number) for each in files) or "none"
    return StorageError(
        f"{store.folder} has no version {number}; it has {listed}",
        "name a version that vfl models list shows",
    )


def refuse_open_views(views: Sequence[RequestView]) -> None:
    """Refuse to erase the kept model while requests are open.

    Raises:
        PolicyError: a request is neither carried out, nor rejected or withdrawn.
    """
    open_ = [each for each in views if each.state not in ENDED | CARRIED_OUT]
    if open_:
        raise PolicyError(
            f"{len(open_)} requests to forget are open, and need the kept model: {open_[0].id}",
            "carry them out with vfl serve, or withdraw them with vfl unlearn withdraw",
        )
