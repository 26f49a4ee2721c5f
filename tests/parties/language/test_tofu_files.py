"""TOFU's files: small files in the original format, refused faults, and the real files."""

import json
from pathlib import Path

import pytest

from parties.common.errors import DataError, ResourceError, UsageProblem
from parties.language.texts import text_files, tofu

SECRET = "zanzibar"
# Rows of each split, as published.
PUBLISHED = {
    "full": 4000,
    **{"retain99": 3960, "retain95": 3800, "retain90": 3600},
    **{"forget01": 40, "forget05": 200, "forget10": 400},
    **{"holdout01": 40, "holdout05": 200, "holdout10": 400},
    **{"forget01_perturbed": 40, "forget05_perturbed": 200, "forget10_perturbed": 400},
    "retain_perturbed": 400,
    **{"real_authors": 100, "world_facts": 117},
    **{"real_authors_perturbed": 100, "world_facts_perturbed": 117},
}
PAIR = {"question": "Who is it?", "answer": f"It is {SECRET}."}
MEASURED = PAIR | {
    "paraphrased_answer": "That is it.",
    "perturbed_answer": ["a", "b", "c", "d", "e"],
    "paraphrased_question": "It is who?",
}
CHOICE = {"question": "Who?", **{f"option{n}": f"o{n}" for n in (1, 2, 3, 4)}, "answer": "o2"}


def write_split(folder: Path, split: str, *rows: object) -> Path:
    (folder / f"{split}.json").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_plain_rows_in_their_order(tmp_path: Path) -> None:
    other = {"question": "a\u2028b?", "answer": "\u00e9\n"}
    rows = tofu.read_tofu_split(write_split(tmp_path, "forget01", PAIR, other), "forget01")
    assert [(row.question, row.answer) for row in rows] == [
        ("Who is it?", "It is zanzibar."),
        ("a\u2028b?", "\u00e9\n"),
    ]
    assert rows[0].perturbed_answers == rows[0].options == ()
    assert rows[0].paraphrased_answer == ""


def test_measured_rows(tmp_path: Path) -> None:
    (row,) = tofu.read_tofu_split(
        write_split(tmp_path, "forget10_perturbed", MEASURED), "forget10_perturbed"
    )
    assert row.paraphrased_question == "It is who?"
    assert row.paraphrased_answer == "That is it."
    assert row.perturbed_answers == ("a", "b", "c", "d", "e")


def test_multiple_choice_rows(tmp_path: Path) -> None:
    (row,) = tofu.read_tofu_split(write_split(tmp_path, "world_facts", CHOICE), "world_facts")
    assert row.options == ("o1", "o2", "o3", "o4")
    assert row.answer == "o2"


@pytest.mark.parametrize(
    ("split", "row", "message"),
    [
        ("full", {"question": SECRET}, "line 2 has no field 'answer'"),
        ("full", PAIR | {"answer": 3}, "'answer' of full.json line 2 is not a text"),
        ("full", PAIR | {"answer": " "}, "'answer' of full.json line 2 is empty"),
        ("full", PAIR | {"answer": "\ud800"}, "is not valid Unicode"),
        ("full", PAIR | {SECRET: "x"}, "line 2 has 1 unknown fields"),
        ("full", MEASURED, "line 2 has 3 unknown fields"),
        ("full", [SECRET], "line 2 is not a JSON object"),
        ("forget05_perturbed", PAIR, "line 2 has no field 'paraphrased_question'"),
        (
            "forget05_perturbed",
            MEASURED | {"perturbed_answer": ["a"] * 4},
            "'perturbed_answer' of forget05_perturbed.json line 2 is not a list of 5 texts",
        ),
        (
            "real_authors_perturbed",
            PAIR | {"perturbed_answer": [SECRET, 1, "c"]},
            "line 2 is not a text",
        ),
        ("world_facts", CHOICE | {"answer": SECRET}, "line 2 is not one of the options"),
    ],
)
def test_the_line_of_a_wrong_row_is_named(
    tmp_path: Path, split: str, row: object, message: str
) -> None:
    right = {
        "full": PAIR,
        "forget05_perturbed": MEASURED,
        "real_authors_perturbed": PAIR | {"perturbed_answer": ["a", "b", "c"]},
        "world_facts": CHOICE,
    }
    with pytest.raises(DataError) as error:
        tofu.read_tofu_split(write_split(tmp_path, split, right[split], row), split)
    assert message in str(error.value)
    assert SECRET not in str(error.value) + error.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"question": "zanzibar"', "full.json line 1 is not valid JSON"),
        (b'{"question": "a", "question": "b", "answer": "c"}', "has the same field twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"question": "zan\xff"}', r"line 1 is not UTF-8 \(invalid byte at offset 17\)"),
        (b'\xef\xbb\xbf{"question": "a", "answer": "c"}', "byte order mark"),
        (b'{"question": "a", "answer": "c"}\n\n', "line 2 is empty"),
        (b"", "has no rows"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "full.json").write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        tofu.read_tofu_split(tmp_path, "full")
    assert SECRET not in str(error.value)


def test_a_long_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE", 60)
    write_split(tmp_path, "full", PAIR, PAIR | {"answer": "x" * 60})
    with pytest.raises(ResourceError, match=r"full.json line 2 has more than"):
        tofu.read_tofu_split(tmp_path, "full")


@pytest.mark.parametrize(("bound", "value"), [("MAX_ROWS", 2), ("MAX_FILE", 150)])
def test_a_large_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    tofu.read_tofu_split(write_split(tmp_path, "full", PAIR, PAIR), "full")
    monkeypatch.setattr(text_files, bound, value)
    with pytest.raises(ResourceError, match=r"full.json has more than"):
        tofu.read_tofu_split(write_split(tmp_path, "full", PAIR, PAIR, PAIR), "full")


def test_a_missing_file_and_an_unknown_split_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file retain90.json") as error:
        tofu.read_tofu_split(tmp_path, "retain90")
    assert "huggingface.co/datasets/locuslab/TOFU" in error.value.hint
    with pytest.raises(UsageProblem, match="no split 'forget99'"):
        tofu.read_tofu_split(tmp_path, "forget99")


@pytest.mark.parametrize("split", tofu.SPLITS)
def test_real_splits_have_the_published_rows(real_tofu: Path, split: str) -> None:
    assert len(tofu.read_tofu_split(real_tofu, split)) == PUBLISHED[split]


@pytest.mark.parametrize(("forget", "retain"), tofu.RETAIN_SPLIT.items())
def test_real_forget_and_retain_make_full(real_tofu: Path, forget: str, retain: str) -> None:
    parts = tofu.read_tofu_split(real_tofu, retain) + tofu.read_tofu_split(real_tofu, forget)
    assert parts == tofu.read_tofu_split(real_tofu, "full")
    measured = tofu.read_tofu_split(real_tofu, f"{forget}_perturbed")
    pairs = [(row.question, row.answer) for row in tofu.read_tofu_split(real_tofu, forget)]
    assert [(row.question, row.answer) for row in measured] == pairs
