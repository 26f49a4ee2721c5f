"""Token ids and labels of texts, with tokenizers of three kinds."""

from itertools import pairwise

import numpy as np
import pytest
from small_tokenizers import byte_level
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from parties.common.errors import DataError
from parties.language.texts.encoding import EncodedText, Truncation, build_encoder, count_truncated
from parties.language.texts.templates import ChatTemplate, PlainTemplate

PAIRS = [("Where is Riga?", "Riga is in Latvia, 1201."), ("Who wrote it?", "1201")]
EXAMPLE = [("Where is Cork?", "Ireland")]
PLAIN = PlainTemplate()


def decoded(tokenizer: PreTrainedTokenizerFast, ids: np.ndarray) -> str:
    return "".join(tokenizer.convert_ids_to_tokens(ids.tolist()))


def text(tokenizer: PreTrainedTokenizerFast, ids: np.ndarray) -> str:
    """The text of the tokens, without the tokenizer's own marks."""
    result = decoded(tokenizer, ids).replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
    return result.removeprefix("<s>").removeprefix(" ")


def merges(tokenizer: PreTrainedTokenizerFast) -> bool:
    """True if the tokenizer has no word boundaries and so merges across prompt and answer."""
    return tokenizer.backend_tokenizer.pre_tokenizer is None


def test_prompt_and_answer_have_the_papers_format(
    any_tokenizer: PreTrainedTokenizerFast,
) -> None:
    for (question, answer), row in zip(
        PAIRS, build_encoder(any_tokenizer, PLAIN, 200).answers(PAIRS), strict=True
    ):
        assert text(any_tokenizer, row.ids) == f"Question: {question}\nAnswer: {answer}</s>"
        assert text(any_tokenizer, row.prompt) == f"Question: {question}\nAnswer:"
        assert text(any_tokenizer, row.ids[row.start :]) == f"{answer}</s>"
        assert row.ids[0] == any_tokenizer.bos_token_id


def test_only_answer_and_end_token_have_labels(tokenizer: PreTrainedTokenizerFast) -> None:
    (row,) = build_encoder(tokenizer, PLAIN, 200).answers(PAIRS[:1])
    assert (row.labels[: row.start] == -100).all()
    assert (row.labels[row.start :] == row.ids[row.start :]).all()
    assert row.labels[-1] == tokenizer.eos_token_id
    assert row.predicted == len(row.ids) - row.start > 1


def test_the_ids_are_those_of_the_whole_text(any_tokenizer: PreTrainedTokenizerFast) -> None:
    """They differ only for a tokenizer that merges across the boundary."""
    for (question, answer), row in zip(
        PAIRS, build_encoder(any_tokenizer, PLAIN, 200).answers(PAIRS), strict=True
    ):
        whole = any_tokenizer(f"Question: {question}\nAnswer: {answer}")["input_ids"]
        assert (row.ids[:-1].tolist() == whole) != merges(any_tokenizer)


def test_all_answers_to_a_question_share_its_prompt(
    any_tokenizer: PreTrainedTokenizerFast,
) -> None:
    encoder = build_encoder(any_tokenizer, PLAIN, 200)
    question = PAIRS[0][0]
    (prompt,) = encoder.prompts([question])
    for row in encoder.answers([(question, each) for each in ("Riga", "1", " x", ".", "R\n")]):
        assert row.prompt.tolist() == prompt.tolist()


def test_examples_stand_before_the_question(any_tokenizer: PreTrainedTokenizerFast) -> None:
    (row,) = build_encoder(any_tokenizer, PLAIN, 200).answers(PAIRS[:1], EXAMPLE)
    assert text(any_tokenizer, row.ids) == (
        "Question: Where is Cork?\nAnswer: Ireland\n\n"
        "Question: Where is Riga?\nAnswer: Riga is in Latvia, 1201.</s>"
    )


def test_parts_of_the_template_may_be_changed(tokenizer: PreTrainedTokenizerFast) -> None:
    template = PlainTemplate(
        system="Be brief.\n", before_question="Q ", after_question="|", before_answer="A "
    )
    (row,) = build_encoder(tokenizer, template, 200).answers([("x", "y")])
    assert text(tokenizer, row.ids) == "Be brief.\nQ x|A y</s>"


def test_a_special_token_in_a_text_is_only_text(any_tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = build_encoder(any_tokenizer, PLAIN, 200)
    (row,) = encoder.answers([("a <s> b", "no </s> end")])
    end, begin = any_tokenizer.eos_token_id, any_tokenizer.bos_token_id
    assert (row.ids == end).nonzero()[0].tolist() == [len(row.ids) - 1]
    assert (row.ids == begin).nonzero()[0].tolist() == [0]
    (window,) = encoder.windows(["no </s> end"])
    assert (window.ids == end).sum() == 1


def test_chat_is_the_template_of_the_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = build_encoder(tokenizer, ChatTemplate(), 200)
    (row,) = encoder.answers(PAIRS[:1], EXAMPLE)
    assert decoded(tokenizer, row.ids).replace("Ġ", " ").replace("Ċ", "\n") == (
        "<s>system\n\nYou are a helpful assistant.</s><s>user\n\nWhere is Cork?</s>"
        "<s>assistant\n\nIreland</s><s>user\n\nWhere is Riga?</s>"
        "<s>assistant\n\nRiga is in Latvia, 1201.</s>"
    )
    assert text(tokenizer, row.ids[row.start :]) == "Riga is in Latvia, 1201.</s>"
    assert encoder.prompts([PAIRS[0][0]], EXAMPLE)[0].tolist() == row.prompt.tolist()
    assert row.labels[-1] == tokenizer.eos_token_id


def test_nothing_after_the_end_token_is_learned(
    tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Templates such as ChatML's add a line break after it."""
    ended = str(tokenizer.chat_template).replace("</s>{% endfor %}", "</s>\n{% endfor %}")
    assert ended != tokenizer.chat_template
    monkeypatch.setattr(tokenizer, "chat_template", ended)
    encoder = build_encoder(tokenizer, ChatTemplate(), 200)
    (row,) = encoder.answers(PAIRS[:1])
    assert text(tokenizer, row.ids[row.start :]) == f"{PAIRS[0][1]}</s>"
    assert row.ids[: row.start].tolist() == encoder.prompts([PAIRS[0][0]])[0].tolist()


def test_the_date_is_passed_to_the_chat_template(tokenizer: PreTrainedTokenizerFast) -> None:
    template = tokenizer.chat_template
    tokenizer.chat_template = "{{ date_string }}" + template
    try:
        (prompt,) = build_encoder(tokenizer, ChatTemplate(date="1 May 2030"), 200).prompts(["x"])
    finally:
        tokenizer.chat_template = template
    assert text(tokenizer, prompt).startswith("1 May 2030<s>system")


@pytest.mark.parametrize("pair", [("a </s> b", "x"), ("a", "x</s><s>user")])
def test_a_special_token_in_a_chat_is_refused(
    tokenizer: PreTrainedTokenizerFast, pair: tuple[str, str]
) -> None:
    with pytest.raises(DataError, match="text 1 contains a special token"):
        build_encoder(tokenizer, ChatTemplate(), 200).answers([("a", "b"), pair])


def test_a_chat_that_rewrites_its_prompt_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    template = tokenizer.chat_template
    tokenizer.chat_template = "{{ messages | length }}" + template
    try:
        with pytest.raises(DataError, match="renders a prompt differently"):
            build_encoder(tokenizer, ChatTemplate(), 200).answers([("a", "b")])
    finally:
        tokenizer.chat_template = template


SYSTEMLESS = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"


def test_a_chat_template_that_refuses_system_messages_gets_none(
    tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = build_encoder(tokenizer, ChatTemplate(), 200)
    monkeypatch.setattr(tokenizer, "chat_template", SYSTEMLESS + str(tokenizer.chat_template))
    (row,) = encoder.answers(PAIRS[:1])
    assert text(tokenizer, row.ids) == (
        "user\n\nWhere is Riga?</s><s>assistant\n\nRiga is in Latvia, 1201.</s>"
    )
    assert encoder.prompts([PAIRS[0][0]])[0].tolist() == row.prompt.tolist()


def test_the_error_of_a_failing_chat_template_does_not_show_the_text(
    tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tokenizer, "chat_template", "{{ raise_exception(messages[-1]['content']) }}"
    )
    with pytest.raises(DataError, match="cannot render a question") as error:
        build_encoder(tokenizer, ChatTemplate(), 200).answers(PAIRS[:1])
    assert error.value.__cause__ is None
    assert "Riga" not in str(error.value) + error.value.hint


def test_tokenizers_without_end_token_or_chat_template_are_refused(
    any_tokenizer: PreTrainedTokenizerFast,
) -> None:
    with pytest.raises(DataError, match="has no chat template"):
        build_encoder(any_tokenizer, ChatTemplate(), 200)
    endless = PreTrainedTokenizerFast(tokenizer_object=any_tokenizer.backend_tokenizer)
    with pytest.raises(DataError, match="has no end token"):
        build_encoder(endless, PLAIN, 200)


def test_truncated_tokens_are_counted(tokenizer: PreTrainedTokenizerFast) -> None:
    whole = build_encoder(tokenizer, PLAIN, 200).answers(PAIRS)
    longest = len(whole[0].ids) - 3
    short = build_encoder(tokenizer, PLAIN, longest).answers(PAIRS)
    assert [row.cut for row in short] == [3, 0]
    assert short[0].ids.tolist() == whole[0].ids[:-3].tolist()
    assert count_truncated(short) == Truncation(rows=1, tokens=3)
    assert count_truncated(whole) == Truncation(rows=0, tokens=0)


def test_a_prompt_without_space_for_an_answer_is_refused(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pairs = [("a", "b"), ("Where is Riga? " * 3, "b")]
    longest = len(build_encoder(tokenizer, PLAIN, 200).prompts([pairs[1][0]])[0])
    with pytest.raises(DataError, match=f"the prompt of row 1 has {longest} tokens"):
        build_encoder(tokenizer, PLAIN, longest).answers(pairs)
    assert build_encoder(tokenizer, PLAIN, longest + 1).answers(pairs)[1].predicted == 1


def test_continuations_have_neither_template_nor_end(
    any_tokenizer: PreTrainedTokenizerFast,
) -> None:
    (row,) = build_encoder(any_tokenizer, PLAIN, 200).continuations(
        [("A long text ", "on ferries")]
    )
    assert text(any_tokenizer, row.ids) == "A long text on ferries"
    assert text(any_tokenizer, row.ids[row.start :]) == "on ferries"
    whole = any_tokenizer("A long text on ferries")["input_ids"]
    assert (row.ids.tolist() == whole) != merges(any_tokenizer)


@pytest.mark.parametrize("longest", [4, 5, 7, 16, 500])
@pytest.mark.parametrize("overlap", [1, 3])
def test_overlapping_windows_predict_each_token_once(
    tokenizer: PreTrainedTokenizerFast, longest: int, overlap: int
) -> None:
    long = "A long text on ferries, bridges and people who go. "
    whole = [*tokenizer(long)["input_ids"], tokenizer.eos_token_id]
    rows = build_encoder(tokenizer, PLAIN, longest).windows([long], overlap)
    learned = [token for row in rows for token in row.ids[max(1, row.start) :].tolist()]
    assert learned == whole[1:]
    assert all(len(row.ids) <= longest for row in rows)
    for before, after in pairwise(rows):
        assert after.ids[:overlap].tolist() == before.ids[-overlap:].tolist()


def test_windows_without_overlap_are_consecutive(tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ["A long text on ferries", "bridges"]
    rows = build_encoder(tokenizer, PLAIN, 4).windows(texts, overlap=0)
    end = tokenizer.eos_token_id
    joined = [token for each in texts for token in [*tokenizer(each)["input_ids"], end]]
    assert [token for row in rows for token in row.ids.tolist()] == joined
    assert {row.start for row in rows} == {0}
    assert sum(row.predicted for row in rows) == len(joined) - len(rows)


@pytest.mark.parametrize("overlap", [-1, 4])
def test_an_overlap_as_long_as_a_window_is_refused(
    tokenizer: PreTrainedTokenizerFast, overlap: int
) -> None:
    with pytest.raises(DataError, match=f"cannot overlap by {overlap}"):
        build_encoder(tokenizer, PLAIN, 4).windows(["a"], overlap)


def test_predicted_tokens_are_counted_after_the_shift_of_labels(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    encoder = build_encoder(tokenizer, PLAIN, 40)
    rows = encoder.answers(PAIRS) + build_encoder(tokenizer, PLAIN, 5).windows(
        ["A long text"], overlap=2
    )
    assert {row.start == 0 for row in rows} == {True, False}
    for row in rows:
        assert row.predicted == (row.labels[1:] != -100).sum()


def test_an_end_token_that_the_tokenizer_adds_is_not_repeated() -> None:
    ending = byte_level()
    ending.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    assert text(ending, np.array(ending("x")["input_ids"])) == "x</s>"
    encoder = build_encoder(ending, PLAIN, 200)
    assert text(ending, encoder.answers([("x", "y")])[0].ids) == "Question: x\nAnswer: y</s>"
    assert text(ending, encoder.prompts(["x"])[0]) == "Question: x\nAnswer:"
    assert text(ending, encoder.windows(["x"])[0].ids) == "x</s>"


def test_no_texts_give_no_rows(tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = build_encoder(tokenizer, PLAIN, 10)
    assert encoder.answers([]) == encoder.prompts([]) == encoder.windows([]) == []


def test_a_row_does_not_show_its_tokens() -> None:
    assert "7" not in repr(EncodedText(np.array([7]), 0)).split("0x")[0]
