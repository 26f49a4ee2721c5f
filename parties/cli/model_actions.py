"""What the commands of ``vfl models`` do with the kept model of one party."""

from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.console import Console
from parties.cli.requests.place import Place, local_desk, read_keeping, read_vertical, vertical_desk
from parties.common.errors import IntegrityError, StorageError, UsageProblem
from parties.data.id_lists import read_id_list
from parties.data.requested_ids import id_columns
from parties.requests.events import event_time
from parties.session.run_folder import lock_run_folder
from parties.session.saved_model import MODEL, remove_saved_model
from parties.session.store.model_store import StoredFile, model_store
from parties.session.store.sealing import KeyFile, read_key, read_master_key
from parties.vertical.offline.audit import ModelAudit, audit_files
from parties.vertical.offline.leave import leave, plan_leaving
from parties.vertical.offline.rollback import remove_versions, roll_back
from parties.vertical.offline.transfer import (
    ExportFacts,
    Transferred,
    export_party,
    import_party,
)

if TYPE_CHECKING:
    from parties.session.store.file_search import FileReport

EVERY_PARTY = "Run the same command at every other party: a model consists of all parts."


def list_models(place: Place, console: Console) -> None:
    """Print the files of a party's store, and their size beside that of the saved model.

    Raises:
        ConfigError: the config is not valid, or its mode keeps no model.
        StorageError: the party's folder does not exist.
        IntegrityError: the key file is damaged, or another master key is needed.
    """
    agreement = read_keeping(place).agreement
    state = _folder(place, agreement.federation)
    keys = KeyFile(state, read_master_key(place.master_key))
    files = model_store(state, place.party, agreement, keys).files()
    newest = max((each.number for each in files if each.version), default=None)
    for each in files:
        console.print(
            _line(each, newest=each.number == newest),
            event="version",
            number=each.number,
            run=each.run.hex(),
            size=each.size,
            newest=each.number == newest,
            readable=each.readable,
            fault=each.fault,
            version=None if each.version is None else asdict(each.version),
        )
    saved, kept = state / MODEL, sum(each.size for each in files)
    model = saved.stat().st_size if saved.exists() else 0
    ratio = f", {kept / model:.1f} times the saved model ({_size(model)})" if model else ""
    console.print(
        f"{len(files)} files, {_size(kept)}{ratio}",
        event="total", files=len(files), size=kept, model_size=model,
    )  # fmt: skip


def audit_models(place: Place, ids: Path | None, console: Console) -> None:
    """Search all files of a party for forgotten rows, and print what was found in each file.

    Raises:
        IntegrityError: something was found, or an erased place can still be read.
    """
    with vertical_desk(place, reads_data=True) as local:
        columns = id_columns(local.party.settings.data)
        given = read_id_list(ids, columns).ids if ids is not None else ()
        audit = audit_files(local, given)
        folder = local.party.state
    for each in audit.files:
        if each.found or each.unread:
            _print_report(each, folder, console, audit.kept.get(each.path))
    for name, erased in audit.erased.items():
        text = "key and file are gone" if erased else "STILL THERE"
        console.print(f"{name}: erased by a request; {text}", event="erased", id=name, gone=erased)
    _print_audit(audit, console)
    if not audit.clean:
        raise IntegrityError(
            f"forgotten rows were found in the files of {place.party}",
            "remove the files that vfl did not write; for others, see the section on kept models "
            "in docs/operator.md",
        )


def roll_back_models(place: Place, number: int, console: Console) -> None:
    """Make a version the newest one at this party.

    Raises:
        StorageError: another process of the party runs, or the version cannot be read.
        PolicyError: the version knows forgotten rows, or is the newest one.
    """
    agreement = read_vertical(place).agreement
    state = _folder(place, agreement.federation)
    with lock_run_folder(state), vertical_desk(place) as local:
        gone = roll_back(local, number)
    _print_erased(gone, console, f"version {number} is the newest one now")


def remove_models(place: Place, number: int | None, console: Console, *, every: bool) -> None:
    """Erase one version of a party, or all of them together with its saved model.

    Raises:
        UsageProblem: neither a number nor --all is given, or both are.
        StorageError: another process of the party runs, there is no such version, or a file cannot
            be erased.
        PolicyError: the version is in use, or requests that need the model are open.
    """
    if every is (number is not None):
        raise UsageProblem("give the number of a version, or --all", "vfl models list shows them")
    agreement = read_keeping(place).agreement
    state = _folder(place, agreement.federation)
    with lock_run_folder(state), local_desk(place) as local:
        gone = remove_versions(local, number)
        if every:
            remove_saved_model(state)
    also = "; the saved model of `vfl predict` is gone, too" if every else ""
    _print_erased(gone, console, f"keys and files are gone{also}")


def leave_federation(place: Place, statement: Path, console: Console, *, confirmed: bool) -> None:
    """Erase a passive party's part of the model, and write a signed statement of this to a file.

    Raises:
        UsageProblem: it is not confirmed; the error lists what would be erased.
        PolicyError: the party is the active one, or requests are open.
        StorageError: another process of the party runs, or a file cannot be erased or written.
    """
    agreement = read_vertical(place).agreement
    state = _folder(place, agreement.federation)
    with lock_run_folder(state), vertical_desk(place) as local:
        plan = plan_leaving(local)
        named = ", ".join(each.id for each in plan.items) or "nothing: all is erased already"
        if not confirmed:
            raise UsageProblem(f"{place.party} would erase {named}", "give --yes to erase it")
        count = leave(local, plan, statement)
    console.print(
        f"{place.party} has left: erased {named}. The journal and the receipts stay. Send "
        f"{statement} to a party that remains; it reads the file with vfl unlearn import",
        event="left", erased=[each.id for each in plan.items], file=str(statement), events=count,
    )  # fmt: skip


def export_model(place: Place, target: Path, transfer_key: Path, console: Console) -> None:
    """Write the newest version, the journal and the receipts of a party to one encrypted file.

    Raises:
        StorageError: another process of the party runs, no model is kept, or a file exists already.
        IdentityError: a certificate of the party is missing or invalid.
        IntegrityError: the key file, the newest version or the journal is damaged.
    """
    agreement = read_vertical(place).agreement
    state = _folder(place, agreement.federation)
    keys = KeyFile(state, read_master_key(place.master_key))
    facts = ExportFacts(agreement.federation, place.party, event_time(datetime.now(UTC)), 0)
    # The desk introduces this party's key, if it has not yet: else the restored party would do so a
    # second time, in events that do not follow those that the others have.
    with lock_run_folder(state), local_desk(place):
        done = export_party(state, facts, agreement, keys, target, transfer_key)
    _print_transfer(
        done,
        console,
        f"written to {target} ({_size(target.stat().st_size)}), encrypted. {transfer_key} has the "
        "key of this file alone: keep it elsewhere, and delete it once the file is not needed",
    )


def import_model(place: Place, source: Path, transfer_key: Path, console: Console) -> None:
    """Write the folder of a party from an exported file, where the party has no folder yet.

    Raises:
        ConfigError: the transfer key cannot be read.
        StorageError: the folder exists already, or cannot be written.
        IntegrityError: the file is damaged, or is that of another party or key.
    """
    agreement = read_vertical(place).agreement
    state = place.out / agreement.federation / place.party
    key, master = read_key(transfer_key, "transfer key"), read_master_key(place.master_key)
    done = import_party(source, key, state, agreement, master)
    _print_transfer(
        done,
        console,
        f"imported into {state}. Requests from after {done.facts.made_at} come back from the other "
        "parties, or from an exported journal (vfl unlearn import), before anything else happens",
    )


def _print_transfer(done: Transferred, console: Console, result: str) -> None:
    console.print(
        f"version {done.facts.version}, {done.events} events of requests, {done.files} files: "
        f"{result}",
        event="transfer", version=done.facts.version, made_at=done.facts.made_at,
        events=done.events, files=done.files,
    )  # fmt: skip


def _folder(place: Place, federation: str) -> Path:
    state = place.out / federation / place.party
    if not state.is_dir():
        raise StorageError(
            f"the folder {state} of party {place.party} does not exist",
            "train first, or name the folder of the runs with --out",
        )
    return state


def _line(each: StoredFile, *, newest: bool) -> str:
    what = "checkpoint of a request that is being carried out"
    if each.fault:
        what = f"cannot be read: {each.fault}"
    elif each.version is not None:
        made = each.version
        what = f"{made.made_at}  {made.made_by}"
        what += f" {', '.join(made.requests)} by {made.method}" if made.requests else ""
        what += f" from version {made.parent}" if made.parent is not None else ""
    mark = "  (newest)" if newest else ""
    return f"{each.number:6}  {_size(each.size):>10}  {what}{mark}"


def _print_report(each: "FileReport", folder: Path, console: Console, kept: date | None) -> None:
    name = str(each.path.relative_to(folder))
    parts = [f"{kind.value} of {count} persons" for kind, count in each.found.items()]
    parts += [f"not searched: {each.unread}"] if each.unread else []
    parts += [f"kept until {kept} for vfl replay, as agreed"] if kept else []
    console.print(
        f"{name}: {'; '.join(parts)}",
        event="file", file=name, unread=each.unread,
        found={kind.value: count for kind, count in each.found.items()},
    )  # fmt: skip


def _print_audit(audit: ModelAudit, console: Console) -> None:
    found = sum(1 for each in audit.files if each.found and each.path not in audit.kept)
    unread = sum(1 for each in audit.files if each.unread)
    console.print(
        f"searched {len(audit.files)} files for {audit.ids} IDs, and for the values of "
        f"{audit.rows} rows ({audit.evident} rows of numbers that belong to one person alone): "
        f"found in {found} files; {unread} files could not be searched completely",
        event="audit", files=len(audit.files), ids=audit.ids, rows=audit.rows,
        evident=audit.evident, found=found, unread=unread, clean=audit.clean,
    )  # fmt: skip


def _print_erased(gone: list[int], console: Console, result: str) -> None:
    listed = ", ".join(map(str, gone)) or "nothing"
    console.print(f"erased {listed}; {result}. {EVERY_PARTY}", event="erased", numbers=gone)


def _size(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
