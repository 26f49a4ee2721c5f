"""The table of planted faults fits the product, and its results are those of the table."""

import json
from pathlib import Path

import pytest
from faults import ROOT, Fault, read_faults
from structure.rows import MUTATIONS, PLANTED, mutations_row

FAULTS = read_faults()


def test_there_are_as_many_different_faults_as_promised() -> None:
    assert len({each.name for each in FAULTS}) == len(FAULTS) == PLANTED


@pytest.mark.parametrize("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_old_text_occurs_once_and_tests_exist(fault: Fault) -> None:
    assert fault.occurrences() == 1
    assert fault.new != fault.old
    assert fault.tests
    assert [path for path in fault.tests if not (ROOT / path).is_file()] == []


def test_planted_fault_changes_one_place(tmp_path: Path) -> None:
    fault = Fault("wrong sign", "a.py", "x + 1", "x - 1", ("tests/test_a.py",))
    (tmp_path / "a.py").write_text("y = x + 1\nz = 2\n")
    fault.plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "y = x - 1\nz = 2\n"


@pytest.mark.parametrize(("old", "count"), [("x * 1", 0), ("x", 2)])
def test_fault_whose_old_text_does_not_occur_once_is_refused(
    tmp_path: Path, old: str, count: int
) -> None:
    (tmp_path / "a.py").write_text("y = x + x\n")
    fault = Fault("wrong sign", "a.py", old, "1", ("tests/test_a.py",))
    with pytest.raises(ValueError, match=f"'wrong sign': the old text occurs {count} times in a"):
        fault.plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "y = x + x\n"


def test_results_are_those_of_the_table() -> None:
    results = json.loads((ROOT / MUTATIONS).read_text())
    assert [each["name"] for each in results] == [each.name for each in FAULTS]
    for each in results:
        assert each["caught"] is (each["by"] is not None)


@pytest.mark.parametrize(
    ("caught", "value"), [([True] * 20, "20 of 20"), ([False] + [True] * 19, "19 of 20")]
)
def test_a_surviving_fault_breaks_the_row(tmp_path: Path, caught: list[bool], value: str) -> None:
    path = tmp_path / "mutations.json"
    path.write_text(json.dumps([{"name": str(n), "caught": each} for n, each in enumerate(caught)]))
    row = mutations_row(path)
    assert (row.value, row.wanted, row.ok) == (value, "20 of 20", all(caught))
    assert mutations_row(tmp_path / "absent.json").ok is False
