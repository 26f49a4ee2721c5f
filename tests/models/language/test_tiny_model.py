"""Tests of the tiny model: tokenizer, network, pre-training, saving and loading."""

from pathlib import Path

import pytest
import torch

from models.language.errors import LanguageModelError
from models.language.loading import load_language_model
from models.language.pretraining import (
    Pretraining,
    PretrainingProgress,
    learning_rate_share,
    pad_rows,
    pretrain,
)
from models.language.tiny import (
    TinyShape,
    build_tiny_model,
    encode_texts,
    save_language_model,
    train_tokenizer,
)
from tests.models.language.tiny_texts import SHAPE, TEXTS

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ {'user': 'Question: ', 'assistant': 'Answer: ', 'system': ''}[message['role']] }}"
    "{{ message['content'] }}"
    "{{ '<|end|>' if message['role'] == 'assistant' else '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Answer:' }}{% endif %}"
)

PLAN = Pretraining(epochs=30, batch=8, rate=1e-2, seed=4)


@pytest.fixture(scope="module")
def learnt(tokenizer):
    """Return a model trained for 60 steps, its progress reports, and its last loss."""
    model, reports = build_tiny_model(tokenizer, SHAPE, seed=1), []
    rows = encode_texts(tokenizer, TEXTS, 64)
    ticks = iter(range(100))
    loss = pretrain(model, rows, PLAN, reports.append, lambda: float(next(ticks)))
    return model, reports, loss


def test_the_usual_shape_is_tiny() -> None:
    """Count 2,000·128 embeddings, layers of 4·128² + 3·128·352 + 2·128, and a last norm of 128."""
    usual = train_tokenizer([f"{n} {n * n}" for n in range(20_000)], 2000)
    assert len(usual) == 2000
    count = sum(each.numel() for each in build_tiny_model(usual, TinyShape(), 0).parameters())
    assert count == 256_000 + 6 * (65_536 + 135_168 + 256) + 128 == 1_461_888


def test_the_tokenizer_encodes_any_text_without_an_end_token(tokenizer) -> None:
    text = "Ada lives in Ulm.\n Ω≈ç 漢字"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_token_id not in tokenizer.encode(text)
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")
    again = train_tokenizer(TEXTS, 300)
    assert again.get_vocab() == tokenizer.get_vocab()


def test_a_chat_template_is_applied() -> None:
    talking = train_tokenizer(TEXTS, 300, CHAT_TEMPLATE)
    question = [{"role": "user", "content": "Where?"}]
    result = talking.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    assert result == "Question: Where?\nAnswer:"
    answered = [*question, {"role": "assistant", "content": "Ulm."}]
    result = talking.apply_chat_template(answered, tokenize=False)
    assert result == "Question: Where?\nAnswer: Ulm.<|end|>"


def test_texts_get_an_end_token_and_are_cut_into_windows(tokenizer) -> None:
    end = tokenizer.eos_token_id
    whole = encode_texts(tokenizer, ["Ada lives", ""], 64)
    assert whole == [[*tokenizer.encode("Ada lives"), end]]  # an end token alone predicts nothing
    length = len(whole[0])
    assert [len(row) for row in encode_texts(tokenizer, ["Ada lives"], length - 2)] == [
        length - 2,
        2,
    ]


def test_the_model_learns_texts_by_heart(learnt, tokenizer) -> None:
    """Each name has four towns, so the best token for the town has probability about 1/4."""
    model, reports, loss = learnt
    assert reports[0].loss == pytest.approx(5.7, abs=0.3)  # log 300
    assert loss < 0.5
    start = torch.tensor([tokenizer.encode("Question: Where does Ada live?\nAnswer: Ada lives")])
    result = tokenizer.decode(model.generate(start, max_new_tokens=2, do_sample=False)[0])
    assert result.startswith("Question: Where does Ada live?\nAnswer: Ada lives in")
    assert not model.training


def test_progress_is_reported(learnt) -> None:
    """16 rows in batches of 8 make 60 steps in 30 epochs; the clock ticks once per step."""
    _, reports, _ = learnt
    assert [each.step for each in reports] == list(range(1, 61))
    assert {each.steps for each in reports} == {60}
    assert reports[14].remaining == 45
    assert isinstance(reports[-1], PretrainingProgress)
    assert reports[-1].remaining == 0


def test_the_same_seed_makes_the_same_model(tokenizer) -> None:
    rows = encode_texts(tokenizer, TEXTS, 64)

    def trained_parameters(seed: int):
        model = build_tiny_model(tokenizer, SHAPE, seed=1)
        pretrain(model, rows, Pretraining(epochs=2, batch=4, seed=seed))
        return list(model.parameters())

    first, again, other = trained_parameters(1), trained_parameters(1), trained_parameters(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_the_model_is_saved_and_loaded(learnt, tokenizer, tmp_path: Path, tokens) -> None:
    model, _, _ = learnt
    save_language_model(model, tokenizer, tmp_path / "tiny")
    result = load_language_model(tmp_path / "tiny")
    assert torch.equal(result.model(input_ids=tokens).logits, model(input_ids=tokens).logits)
    assert result.tokenizer.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


def test_padding_does_not_change_the_logits(learnt, tokenizer) -> None:
    model, _, _ = learnt
    short, long = encode_texts(tokenizer, [TEXTS[0], "".join(TEXTS[:2])], 64)
    tokens, mask = pad_rows([short, long], tokenizer.pad_token_id)
    single = model(input_ids=torch.tensor([short])).logits
    batched = model(input_ids=tokens, attention_mask=mask).logits[:1, : len(short)]
    torch.testing.assert_close(batched, single, rtol=1e-4, atol=1e-4)
    assert mask.sum(dim=1).tolist() == [len(short), len(long)]


def test_the_learning_rate_by_hand() -> None:
    """There are ten steps, two of them for the warm-up."""
    result = [learning_rate_share(step, 10, 0.2) for step in (0, 1, 2, 6, 9)]
    assert result == pytest.approx([0.5, 1, 1, 0.5, 0.0380602], abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (TinyShape(layers=20), "at most 2000000 parameters"),
        (TinyShape(heads=5), "must be a multiple of the number of heads"),
        (TinyShape(heads=4, key_heads=3), "must be a multiple of the number of heads"),
    ],
)
def test_an_impossible_shape_is_refused(tokenizer, shape, message) -> None:
    with pytest.raises(LanguageModelError, match=message):
        build_tiny_model(tokenizer, shape, seed=0)


def test_a_vocabulary_without_all_bytes_is_refused() -> None:
    with pytest.raises(LanguageModelError, match="to contain all bytes"):
        train_tokenizer(TEXTS, 257)


def test_no_text_and_a_diverging_loss_are_refused(tokenizer) -> None:
    model = build_tiny_model(tokenizer, SHAPE, seed=1)
    with pytest.raises(LanguageModelError, match="list of texts for pre-training is empty"):
        pretrain(model, [], PLAN)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(LanguageModelError, match="diverged"):
        pretrain(model, encode_texts(tokenizer, TEXTS, 64), PLAN)


def test_padding_is_not_trained(tokenizer) -> None:
    """The loss of a padded batch is the mean over its tokens without padding."""
    model, reports = build_tiny_model(tokenizer, SHAPE, seed=1), []
    rows = encode_texts(tokenizer, ["Ada", TEXTS[0]], 64)
    sums = []
    for row in rows:
        tokens = torch.tensor([row])
        logits = model(input_ids=tokens).logits[0, :-1]
        sums.append(
            torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum").item()
        )
    pretrain(model, rows, Pretraining(epochs=1, batch=2), reports.append)
    predicted = sum(len(row) - 1 for row in rows)
    assert reports[0].loss == pytest.approx(sum(sums) / predicted, rel=1e-5)
