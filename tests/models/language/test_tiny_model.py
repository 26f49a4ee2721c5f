"""Tests of the tiny model: made from texts, the same again, and learnt by heart."""

from pathlib import Path

import pytest
import torch

from models.language.errors import LanguageModelError
from models.language.loading import load_language_model
from models.language.pretraining import Pretraining, Progress, pace, padded, pretrain
from models.language.tiny import (
    CHAT_TEMPLATE,
    TinyShape,
    build_tiny,
    encode_texts,
    save_model,
    train_tokenizer,
)
from tests.models.language.tiny_texts import SHAPE, TEXTS

PLAN = Pretraining(epochs=30, batch=8, rate=1e-2, seed=4)


@pytest.fixture(scope="module")
def learnt(tokenizer):
    """A model that was trained for 60 steps, its reports, and its last loss."""
    model, reports = build_tiny(tokenizer, SHAPE, seed=1), []
    rows = encode_texts(tokenizer, TEXTS, 64)
    ticks = iter(range(100))
    loss = pretrain(model, rows, PLAN, reports.append, lambda: float(next(ticks)))
    return model, reports, loss


def test_the_usual_shape_is_tiny() -> None:
    """2,000·128 embeddings; a layer 4·128² + 3·128·352 + 2·128; the last norm 128."""
    usual = train_tokenizer([f"{n} {n * n}" for n in range(20_000)], 2000)
    assert len(usual) == 2000
    count = sum(each.numel() for each in build_tiny(usual, TinyShape(), 0).parameters())
    assert count == 256_000 + 6 * (65_536 + 135_168 + 256) + 128 == 1_461_888


def test_the_tokenizer_writes_any_text_and_ends_nothing_by_itself(tokenizer) -> None:
    text = "Ada lives in Ulm.\n Ω≈ç 漢字"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_token_id not in tokenizer.encode(text)
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")
    again = train_tokenizer(TEXTS, 300)
    assert again.get_vocab() == tokenizer.get_vocab()


def test_the_chat_template_is_a_question_and_its_answer() -> None:
    talking = train_tokenizer(TEXTS, 300, CHAT_TEMPLATE)
    asked = [{"role": "user", "content": "Where?"}]
    told = talking.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert told == "Question: Where?\nAnswer:"
    answered = [*asked, {"role": "assistant", "content": "Ulm."}]
    told = talking.apply_chat_template(answered, tokenize=False)
    assert told == "Question: Where?\nAnswer: Ulm.<|end|>"


def test_texts_end_and_are_cut(tokenizer) -> None:
    end = tokenizer.eos_token_id
    whole = encode_texts(tokenizer, ["Ada lives", ""], 64)
    assert whole == [[*tokenizer.encode("Ada lives"), end]]  # an end alone predicts nothing
    length = len(whole[0])
    assert [len(row) for row in encode_texts(tokenizer, ["Ada lives"], length - 2)] == [
        length - 2,
        2,
    ]


def test_it_learns_by_heart(learnt, tokenizer) -> None:
    """Four towns are open for a name, so the best answer token has a chance of about 1/4."""
    model, reports, loss = learnt
    assert reports[0].loss == pytest.approx(5.7, abs=0.3)  # log 300
    assert loss < 0.5
    start = torch.tensor([tokenizer.encode("Question: Where does Ada live?\nAnswer: Ada lives")])
    told = tokenizer.decode(model.generate(start, max_new_tokens=2, do_sample=False)[0])
    assert told.startswith("Question: Where does Ada live?\nAnswer: Ada lives in")
    assert not model.training


def test_its_progress_is_told(learnt) -> None:
    """16 rows in batches of 8 for 30 epochs, and a clock that ticks once a step."""
    _, reports, _ = learnt
    assert [each.step for each in reports] == list(range(1, 61))
    assert {each.steps for each in reports} == {60}
    assert reports[14].remaining == 45
    assert isinstance(reports[-1], Progress)
    assert reports[-1].remaining == 0
    assert reports[-1].tokens_per_second > 100


def test_the_same_seed_makes_the_same_model(tokenizer) -> None:
    rows = encode_texts(tokenizer, TEXTS, 64)

    def made(seed: int):
        model = build_tiny(tokenizer, SHAPE, seed=1)
        pretrain(model, rows, Pretraining(epochs=2, batch=4, seed=seed))
        return list(model.parameters())

    first, again, other = made(1), made(1), made(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_it_is_saved_and_loaded(learnt, tokenizer, tmp_path: Path, tokens) -> None:
    model, _, _ = learnt
    save_model(model, tokenizer, tmp_path / "tiny")
    found = load_language_model(tmp_path / "tiny")
    assert torch.equal(found.model(input_ids=tokens).logits, model(input_ids=tokens).logits)
    assert found.tokenizer.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


def test_padding_changes_no_loss(learnt, tokenizer) -> None:
    model, _, _ = learnt
    short, long = encode_texts(tokenizer, [TEXTS[0], "".join(TEXTS[:2])], 64)
    tokens, mask = padded([short, long], tokenizer.pad_token_id)
    alone = model(input_ids=torch.tensor([short])).logits
    beside = model(input_ids=tokens, attention_mask=mask).logits[:1, : len(short)]
    torch.testing.assert_close(beside, alone, rtol=1e-4, atol=1e-4)
    assert mask.sum(dim=1).tolist() == [len(short), len(long)]


def test_the_pace_by_hand() -> None:
    """Ten steps, two of them to warm up."""
    found = [pace(step, 10, 0.2) for step in (0, 1, 2, 6, 9)]
    assert found == pytest.approx([0.5, 1, 1, 0.5, 0.0380602], abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (TinyShape(layers=20), "numbers, and a tiny one 2000000 at most"),
        (TinyShape(heads=5), "do not divide"),
        (TinyShape(heads=4, key_heads=3), "do not divide"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(tokenizer, shape, told) -> None:
    with pytest.raises(LanguageModelError, match=told):
        build_tiny(tokenizer, shape, seed=0)


def test_a_vocabulary_without_all_bytes_is_refused() -> None:
    with pytest.raises(LanguageModelError, match="no place for all bytes"):
        train_tokenizer(TEXTS, 257)


def test_no_text_and_a_diverging_loss_are_refused(tokenizer) -> None:
    model = build_tiny(tokenizer, SHAPE, seed=1)
    with pytest.raises(LanguageModelError, match="no text"):
        pretrain(model, [], PLAN)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(LanguageModelError, match="diverged"):
        pretrain(model, encode_texts(tokenizer, TEXTS, 64), PLAN)


def test_padding_is_not_learnt(tokenizer) -> None:
    """The loss of a padded batch is the mean over its true tokens, each row taken alone."""
    model, reports = build_tiny(tokenizer, SHAPE, seed=1), []
    rows = encode_texts(tokenizer, ["Ada", TEXTS[0]], 64)
    sums = []
    for row in rows:
        tokens = torch.tensor([row])
        told = model(input_ids=tokens).logits[0, :-1]
        sums.append(torch.nn.functional.cross_entropy(told, tokens[0, 1:], reduction="sum").item())
    pretrain(model, rows, Pretraining(epochs=1, batch=2), reports.append)
    predicted = sum(len(row) - 1 for row in rows)
    assert reports[0].loss == pytest.approx(sum(sums) / predicted, rel=1e-5)
