"""The search for persons in files: what counts as found, and what proves nothing."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from parties.session.store.file_search import (
    Searched,
    Trace,
    evident,
    search_bytes,
    search_folder,
    search_tensors,
)

LONG, SHORT, NUMBER, MIDDLE = b"customer-4711", b"p3", b"1042", b"ada.5"
ROW = torch.tensor([[0.25, -1.5, 3.75, 1e-3]], dtype=torch.float64)
IDS = Searched([LONG, SHORT, NUMBER, MIDDLE], {})


def ids_in(content: bytes) -> set[int]:
    return search_bytes(content, IDS).get(Trace.ID, set())


def test_long_id_is_found_anywhere() -> None:
    assert ids_in(b"\0\1xcustomer-4711y") == {0}
    assert ids_in(b"customer-471") == set()


@pytest.mark.parametrize(
    "form", [sha256(LONG).digest(), sha256(LONG).hexdigest().encode(), LONG.hex().encode()]
)
def test_digest_and_hexadecimal_form_of_an_id_are_found(form: bytes) -> None:
    assert ids_in(b"\xff" + form + b"\xff") == {0}


@pytest.mark.parametrize("content", [b"p3", b'{"id": "p3"}', b"x,p3\n", b"a;p3;b", b"p30,p3\r\n"])
def test_short_id_is_found_as_a_cell(content: bytes) -> None:
    assert ids_in(content) == {1}


@pytest.mark.parametrize("content", [b"p30", b"\x81p3\x07", b"step3", b"cap3.txt", b" p3 "])
def test_short_id_is_not_found_by_chance(content: bytes) -> None:
    assert ids_in(content) == set()


def test_number_is_found_as_a_cell_and_not_in_a_list_of_figures() -> None:
    assert ids_in(b'"1042"') == ids_in(b"age;id\n3;1042\n") == {2}
    assert ids_in(b'{"size": 1042}') == ids_in(b"10421") == ids_in(b"0.1042") == set()


def test_id_of_middle_length_is_found_as_a_word() -> None:
    assert ids_in(b"see ada.5 (old)") == {3}
    assert ids_in(b"canada.5") == ids_in(b"ada.51") == set()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_row_of_numbers_is_found_in_bytes_and_in_tensors(dtype: torch.dtype) -> None:
    searched = Searched([], {Trace.FEATURES: [ROW]})
    table = torch.cat([torch.zeros(3, 4, dtype=dtype), ROW.to(dtype)])
    assert search_bytes(b"x" + table.numpy().tobytes(), searched) == {Trace.FEATURES: {0}}
    assert search_tensors([table], searched) == {Trace.FEATURES: {0}}
    nearly = table * (1 + 1e-7)
    assert search_tensors([nearly], searched) == {Trace.FEATURES: {0}}
    assert search_tensors([table * 1.001, table[:, :3], table.long()], searched) == {}
    assert search_bytes(table[:3].numpy().tobytes(), searched) == {}


def test_rows_that_prove_nothing_are_left_out() -> None:
    rows = torch.cat([ROW, 2 * ROW, torch.zeros(1, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]])])
    assert torch.equal(evident(rows, ROW), 2 * ROW)
    assert torch.equal(evident(rows, torch.zeros(0, 4)), torch.cat([ROW, 2 * ROW]))
    assert len(evident(torch.zeros(0, 4), ROW)) == 0


def test_folder_is_searched_with_names_and_hidden_files(tmp_path: Path) -> None:
    searched = Searched([LONG], {Trace.EMBEDDING: [ROW]})
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / ".hidden").write_bytes(LONG)
    (tmp_path / "customer-4711.txt").write_text("")
    tensors = save({"e": ROW * (1 + 1e-7)})
    (tmp_path / "a.safetensors").write_bytes(tensors)
    (tmp_path / "b.sealed").write_bytes(sha256(tensors).digest() + tensors)
    (tmp_path / "clean").write_text("nothing")
    (tmp_path / "packed.zip").write_bytes(b"PK\x03\x04")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "clean")
    reports = {each.path.name: each for each in search_folder(tmp_path, searched)}
    found = {name: dict(each.found) for name, each in reports.items() if each.found}
    assert found == {
        ".hidden": {Trace.ID: 1},
        "customer-4711.txt": {Trace.ID: 1},
        "a.safetensors": {Trace.EMBEDDING: 1},
        "b.sealed": {Trace.EMBEDDING: 1},
    }
    unread = {name for name, each in reports.items() if each.unread}
    assert unread == {"packed.zip", "pipe", "link"}
    assert set(reports) == {*found, *unread, "clean"}
    assert "4711" not in repr(searched)
