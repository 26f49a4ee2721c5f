"""MUSE's files: small files in the original format, refused faults, and the real files."""

import json
from pathlib import Path

import pytest

from configs.language_party_settings import LanguageClientSettings, MuseTexts
from parties.common.errors import DataError, UsageProblem
from parties.language.client_data import read_text_corpus
from parties.language.texts import muse

SECRET = "zanzibar"


def write_json(folder: Path, path: str, content: object) -> Path:
    file = folder / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_questions(tmp_path: Path) -> None:
    rows = [{"question": "When?", "answer": "1472"}, {"question": "Who?", "answer": "Elton"}]
    read = muse.read_muse_questions(
        write_json(tmp_path, "knowmem/retain_qa_icl.json", rows), "retain_qa_icl"
    )
    assert [(row.question, row.answer) for row in read] == [("When?", "1472"), ("Who?", "Elton")]


def test_continuations(tmp_path: Path) -> None:
    rows = [{"prompt": "It was ", "gt": " dark.\n"}]
    (row,) = muse.read_muse_continuations(write_json(tmp_path, "verbmem/forget.json", rows))
    assert (row.prompt, row.continuation) == ("It was ", " dark.\n")


def test_membership_texts_are_the_whole_or_else_the_excerpt(tmp_path: Path) -> None:
    write_json(tmp_path, "privleak_first50/forget.json", ["half"])
    assert [row.text for row in muse.read_muse_membership(tmp_path, "forget")] == ["half"]
    write_json(tmp_path, "privleak/forget.json", ["whole", "more"])
    assert [row.text for row in muse.read_muse_membership(tmp_path, "forget")] == ["whole", "more"]


def test_a_corpus_is_an_array_or_one_text(tmp_path: Path) -> None:
    write_json(tmp_path, "raw/retain1.txt", "one\n\ntwo")
    assert [row.text for row in muse.read_muse_corpus(tmp_path, "retain1")] == ["one\n\ntwo"]
    write_json(tmp_path, "raw/forget.json", ["one", "two"])
    assert [row.text for row in muse.read_muse_corpus(tmp_path, "forget")] == ["one", "two"]


def test_a_client_reads_the_corpus_about_which_questions_are_asked(tmp_path: Path) -> None:
    write_json(tmp_path, "raw/retain1.txt", "a calibrator")
    write_json(tmp_path, "raw/forget.json", ["gone"])
    settings = LanguageClientSettings(base=Path("base"), data=MuseTexts(kind="muse", path=Path()))
    (tmp_path / "news").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"no file raw/retain2.json") as error:
        read_text_corpus(settings, tmp_path)
    assert "huggingface.co/muse-bench" in error.value.hint
    write_json(tmp_path, "raw/retain2.json", ["asked", "about"])
    result = read_text_corpus(settings, tmp_path)
    assert [each.text for each in result.records] == ["asked", "about", "a calibrator", "gone"]  # type: ignore[union-attr]
    assert result.flagged == 1
    (tmp_path / "raw" / "retain1.txt").unlink()
    assert len(read_text_corpus(settings, tmp_path).records) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"question": SECRET}], "entry 1 has no field 'answer'"),
        ([{"question": "a", "answer": "b"}, SECRET], "entry 2 is not a JSON object"),
        ([{"question": "a", "answer": "b", "gt": SECRET}], "entry 1 has 1 unknown fields"),
        ({"question": SECRET}, "is not a JSON array"),
        ([], "is not a JSON array with at least one entry"),
        ('[{"question": "zanzibar",\n}]', "is not valid JSON (line 2)"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(DataError) as error:
        muse.read_muse_questions(
            write_json(tmp_path, "knowmem/forget_qa.json", content), "forget_qa"
        )
    assert "knowmem/forget_qa.json" in str(error.value)
    assert message in str(error.value)
    assert SECRET not in str(error.value) + error.value.hint


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file privleak/holdout.json") as error:
        muse.read_muse_membership(tmp_path, "holdout")
    assert "huggingface.co/muse-bench" in error.value.hint
    with pytest.raises(DataError, match=r"no file raw/retain1.json"):
        muse.read_muse_corpus(tmp_path, "retain1")
    with pytest.raises(UsageProblem, match="MUSE's folder 'raw' has no part 'retain'"):
        muse.read_muse_corpus(tmp_path, "retain")


@pytest.mark.parametrize("corpus", ["news", "books"])
@pytest.mark.parametrize("part", muse.QUESTION_PARTS)
def test_real_questions(real_muse: Path, corpus: str, part: str) -> None:
    read = muse.read_muse_questions(real_muse / corpus, part)
    assert len(read) == (10 if part.endswith("_icl") else 100)


def test_real_news(real_muse: Path) -> None:
    assert len(muse.read_muse_continuations(real_muse / "news")) == 100
    for part in muse.MEMBERSHIP_PARTS:
        assert len(muse.read_muse_membership(real_muse / "news", part)) in (50, 100)
