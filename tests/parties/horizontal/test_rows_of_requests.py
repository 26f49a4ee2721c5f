"""Which rows a client leaves out after requests: its file changes, or it has none left."""

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from client_federation import CLIENTS, WOOD
from kept_clients import SERVER, KeptClients

from parties.horizontal.client import _store_of
from parties.requests.lifecycle import RequestState

CSV = """
[settings.{name}]
data = {{ kind = "csv", path = "{name}.csv", label = "y", ranges = {{ x = [0, 7], z = [0, 5] }}, id = {{ columns = ["id"] }} }}
"""  # noqa: E501


def table_of(name: str, rows: int, first: int = 0) -> list[str]:
    """The lines of a client's file, without a header: ID, two numbers and a class."""
    random = Random(f"{name} {first}")
    return [
        f"{name}{first + at},{random.randint(0, 7)},{random.randint(0, 5)},{random.randint(0, 1)}"
        for at in range(rows)
    ]


def write_table(folder: Path, name: str, lines: Sequence[str]) -> None:
    (folder / f"{name}.csv").write_text("\n".join(["id,x,z,y", *lines]) + "\n")


def ids_of(lines: Sequence[str]) -> set[bytes]:
    return {each.partition(",")[0].encode() for each in lines}


@pytest.fixture
def tables(tmp_path: Path) -> KeptClients:
    """Three clients with a table of 60 rows each, which have trained."""
    text = re.sub(r"classes = \[.*?\]", 'classes = ["0", "1"]', WOOD)
    text = text.replace("shape = [1, 8, 8]", "shape = [2]")
    for name in CLIENTS:
        write_table(tmp_path, name, table_of(name, 60))
        text += f'{name} = {{ role = "client" }}\n'
    config = tmp_path / "wood.toml"
    config.write_text(text + "[settings.server]\n" + "".join(CSV.format(name=n) for n in CLIENTS))
    federation = KeptClients(tmp_path, ("requests.guard=1.0",), config)
    federation.train_here()
    return federation


def training_ids(federation: KeptClients) -> set[bytes]:
    """The IDs of elm's training rows, forgotten ones included."""
    data = federation.set_up("elm", serves=False).client_data  # type: ignore[attr-defined]
    return {*data.ids}


def used_ids(federation: KeptClients) -> set[bytes]:
    """The IDs of the rows on which elm would train now."""
    return {*_store_of(federation.set_up("elm", serves=False))._task.ids}  # type: ignore[arg-type]


def test_rows_of_a_fraction_stay_forgotten_after_the_file_has_changed(tables: KeptClients) -> None:
    request = tables.ask("elm", tables.out, fraction="0.5")
    tables.carry_out()
    before = training_ids(tables)
    gone = before - used_ids(tables)
    assert len(gone) == tables.view(SERVER, tables.out, request).count == round(len(before) / 2)
    lines = table_of("elm", 60)

    write_table(tables.folder, "elm", lines[::-1])
    assert used_ids(tables) == before - gone, "the same rows in another order"

    write_table(tables.folder, "elm", lines + table_of("elm", 6, first=100))
    later = training_ids(tables) - before
    assert later
    assert used_ids(tables) == before - gone | later, "new rows"

    left = [each for each in lines if not ids_of([each]) & gone]
    write_table(tables.folder, "elm", left)
    assert training_ids(tables) == used_ids(tables) == before - gone, "without the forgotten rows"

    with tables.local("elm", tables.out) as local:
        assert {at in local.forgotten for at in gone} == {True}
        assert {at in local.forgotten for at in before - gone} == {False}


def test_a_request_that_names_no_row_is_certified_and_changes_nothing(tables: KeptClients) -> None:
    tables.ask("elm", tables.out)
    tables.carry_out()
    known = tables.digests()
    assert len(known) == 1
    empty = tables.ask("elm", tables.out, ["1"])
    tables.carry_out()
    found = tables.view(SERVER, tables.out, empty)
    assert (found.state, found.count) == (RequestState.CERTIFIED, 0)
    assert tables.digests() == known
    other = tables.ask("oak", tables.out, ["1"])
    tables.carry_out()
    assert tables.view(SERVER, tables.out, other).state is RequestState.CERTIFIED
    assert tables.digests() != known


@pytest.mark.parametrize("by_list", [False, True])
def test_readmitted_rows_are_used_again(tables: KeptClients, by_list: bool) -> None:
    before = training_ids(tables)
    if by_list:
        listed = sorted(each.decode() for each in before)[:3]
        tables.ask_list("elm", tables.out, "--ids", listed)
    else:
        tables.ask("elm", tables.out, fraction="0.1")
    tables.carry_out()
    gone = sorted(before - used_ids(tables))
    assert len(gone) >= 3

    readmit(tables, gone[:1])
    assert used_ids(tables) == before - {*gone[1:]}
    readmit(tables, gone[1:])
    assert used_ids(tables) == before


@pytest.mark.parametrize("by_list", [False, True])
def test_rows_stay_out_if_a_backup_has_an_older_list_of_forgotten_ids(
    tables: KeptClients, by_list: bool
) -> None:
    before = training_ids(tables)
    other = tables.ask_list("elm", tables.out, "--ids", [min(before).decode()])["request"]
    if by_list:
        listed = sorted(each.decode() for each in before)[1:4]
        tables.ask_list("elm", tables.out, "--ids", listed)
    else:
        tables.ask("elm", tables.out, fraction="0.1")
    tables.carry_out()
    readmit(tables, [min(before)])
    left = used_ids(tables)
    assert before - left
    with tables.local("elm", tables.out) as local:
        database = local.desk.journal.database
        database.delete("forgotten", "request <> ?", (other,))
        database.delete("forgotten", "request = ?", (other,))
    assert used_ids(tables) <= left


def readmit(federation: KeptClients, ids: Sequence[bytes]) -> None:
    with federation.local("elm", federation.out) as local:
        assert local.forgotten.readmit(local.desk.journal, ids, "contract") == len(ids)
