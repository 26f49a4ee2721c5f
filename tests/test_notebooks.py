"""The notebooks: every cell runs, and no output is stored."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import vfl

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# For each notebook: the number of its runs and requests that are shown, and printed text.
EXPECTED = {
    "diabetes": (2, ["valid: receipt", "confirmed: all parties of the receipt signed"]),
    "digits": (3, ["1533 common rows"]),
}


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(path.read_text())["cells"] if each["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_every_notebook_has_an_expected_result() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(EXPECTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_cells(path)]
    summaries = [each._repr_html_() for each in shown if isinstance(each, vfl.Run | vfl.Forgotten)]
    number, texts = EXPECTED[path.stem]
    assert len(summaries) == number
    assert all("<table>" in each for each in summaries)
    printed = capsys.readouterr().out
    assert all(text in printed for text in texts)
