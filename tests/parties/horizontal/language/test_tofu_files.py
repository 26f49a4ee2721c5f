"""TOFU's files: small ones in the original format, every fault refused, and the real ones."""

import json
from pathlib import Path

import pytest

from parties.common.errors import DataError, ResourceError, UsageProblem
from parties.language.texts import lines, tofu

SECRET = "zanzibar"
PAIR = {"question": "Who is it?", "answer": f"It is {SECRET}."}
MEASURED = PAIR | {
    "paraphrased_answer": "That is it.",
    "perturbed_answer": ["a", "b", "c", "d", "e"],
    "paraphrased_question": "It is who?",
}
CHOICE = {"question": "Who?", **{f"option{n}": f"o{n}" for n in (1, 2, 3, 4)}, "answer": "o2"}


def written(folder: Path, split: str, *rows: object) -> Path:
    (folder / f"{split}.json").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_plain_rows_in_their_order(tmp_path: Path) -> None:
    other = {"question": "a\u2028b?", "answer": "\u00e9\n"}
    rows = tofu.read_split(written(tmp_path, "forget01", PAIR, other), "forget01")
    assert [(row.question, row.answer) for row in rows] == [
        ("Who is it?", "It is zanzibar."),
        ("a\u2028b?", "\u00e9\n"),
    ]
    assert rows[0].perturbed_answers == rows[0].options == ()
    assert rows[0].paraphrased_answer == ""


def test_measured_rows(tmp_path: Path) -> None:
    (row,) = tofu.read_split(
        written(tmp_path, "forget10_perturbed", MEASURED), "forget10_perturbed"
    )
    assert row.paraphrased_question == "It is who?"
    assert row.paraphrased_answer == "That is it."
    assert row.perturbed_answers == ("a", "b", "c", "d", "e")


def test_multiple_choice_rows(tmp_path: Path) -> None:
    (row,) = tofu.read_split(written(tmp_path, "world_facts", CHOICE), "world_facts")
    assert row.options == ("o1", "o2", "o3", "o4")
    assert row.answer == "o2"


def test_refusals_are_plain_lines(tmp_path: Path) -> None:
    (tmp_path / "idontknow.jsonl").write_text("I do not know.\r\nNo idea.\n")
    assert tofu.read_refusals(tmp_path) == ("I do not know.", "No idea.")


@pytest.mark.parametrize(
    ("split", "row", "told"),
    [
        ("full", {"question": SECRET}, "line 2 has no field 'answer'"),
        ("full", PAIR | {"answer": 3}, "'answer' of full.json line 2 is no text"),
        ("full", PAIR | {"answer": " "}, "'answer' of full.json line 2 is empty"),
        ("full", PAIR | {"answer": "\ud800"}, "is not valid Unicode"),
        ("full", PAIR | {SECRET: "x"}, "line 2 has 1 fields that this file does not have"),
        ("full", MEASURED, "line 2 has 3 fields that"),
        ("full", [SECRET], "line 2 is no JSON object"),
        ("forget05_perturbed", PAIR, "line 2 has no field 'paraphrased_question'"),
        (
            "forget05_perturbed",
            MEASURED | {"perturbed_answer": ["a"] * 4},
            "'perturbed_answer' of forget05_perturbed.json line 2 is no list of 5 texts",
        ),
        (
            "real_authors_perturbed",
            PAIR | {"perturbed_answer": [SECRET, 1, "c"]},
            "line 2 is no text",
        ),
        ("world_facts", CHOICE | {"answer": SECRET}, "line 2 is none of its options"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(
    tmp_path: Path, split: str, row: object, told: str
) -> None:
    right = {
        "full": PAIR,
        "forget05_perturbed": MEASURED,
        "real_authors_perturbed": PAIR | {"perturbed_answer": ["a", "b", "c"]},
        "world_facts": CHOICE,
    }
    with pytest.raises(DataError) as error:
        tofu.read_split(written(tmp_path, split, right[split], row), split)
    assert told in str(error.value)
    assert SECRET not in str(error.value) + error.value.hint


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"question": "zanzibar"', "full.json line 1 is no JSON"),
        (b'{"question": "a", "question": "b", "answer": "c"}', "has a field twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"question": "zan\xff"}', r"line 1 is not UTF-8 \(byte 17 of it\)"),
        (b'\xef\xbb\xbf{"question": "a", "answer": "c"}', "byte order mark"),
        (b'{"question": "a", "answer": "c"}\n\n', "line 2 is empty"),
        (b"", "has no rows"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "full.json").write_bytes(content)
    with pytest.raises(DataError, match=told) as error:
        tofu.read_split(tmp_path, "full")
    assert SECRET not in str(error.value)


def test_a_long_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 60)
    written(tmp_path, "full", PAIR, PAIR | {"answer": "x" * 60})
    with pytest.raises(ResourceError, match=r"full.json line 2 has more than"):
        tofu.read_split(tmp_path, "full")


@pytest.mark.parametrize(("bound", "value"), [("MAX_ROWS", 2), ("MAX_FILE", 150)])
def test_a_large_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    tofu.read_split(written(tmp_path, "full", PAIR, PAIR), "full")
    monkeypatch.setattr(lines, bound, value)
    with pytest.raises(ResourceError, match=r"full.json has more than"):
        tofu.read_split(written(tmp_path, "full", PAIR, PAIR, PAIR), "full")


def test_an_absent_file_and_an_unknown_split_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file retain90.json") as error:
        tofu.read_split(tmp_path, "retain90")
    assert "huggingface.co/datasets/locuslab/TOFU" in error.value.hint
    with pytest.raises(UsageProblem, match="no split 'forget99'"):
        tofu.read_split(tmp_path, "forget99")


def test_a_part_is_not_the_split() -> None:
    tofu.refuse_partial("forget05", 200)
    with pytest.raises(DataError, match=r"has 199 rows here and 200 as published"):
        tofu.refuse_partial("forget05", 199)


@pytest.mark.parametrize("split", tofu.SPLITS)
def test_real_splits_are_whole(real_tofu: Path, split: str) -> None:
    tofu.refuse_partial(split, len(tofu.read_split(real_tofu, split)))


@pytest.mark.parametrize(("forget", "retain"), tofu.RETAIN.items())
def test_real_forget_and_retain_make_full(real_tofu: Path, forget: str, retain: str) -> None:
    parts = tofu.read_split(real_tofu, retain) + tofu.read_split(real_tofu, forget)
    assert parts == tofu.read_split(real_tofu, "full")
    measured = tofu.read_split(real_tofu, f"{forget}_perturbed")
    pairs = [(row.question, row.answer) for row in tofu.read_split(real_tofu, forget)]
    assert [(row.question, row.answer) for row in measured] == pairs


def test_real_refusals(real_tofu: Path) -> None:
    assert len(tofu.read_refusals(real_tofu)) == tofu.REFUSALS
