"""TOFU's figures, computed by hand from given likelihoods and answers."""

from collections.abc import Sequence
from math import exp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from configs.language import TextEvaluation
from parties.language.evaluation.benchmarks import tofu
from parties.language.evaluation.benchmarks.benchmark_encoder import PromptSet
from parties.language.evaluation.benchmarks.tofu import QuestionSet, TofuQuestions
from parties.language.texts.encoding import EncodedText

# Loss per token of two questions in each set: true answers, paraphrased ones, two false ones each.
NATS = {
    "forget": ([0.5, 2.0], [1.0, 1.5], [2.0, 3.0, 0.5, 1.0]),
    "retain": ([0.2, 0.4], [0.6, 0.8], [1.0, 2.0, 3.0, 4.0]),
    "real_authors": ([1.0, 0.1], None, [2.0, 3.0, 0.3, 0.4]),
    "world_facts": ([0.7, 0.9], None, [0.5, 1.1, 2.5, 1.9]),
}
REWORDED = [1.2, 0.8]
TRUTH = "the boat leaves at nine"
ANSWERS = {  # generated answers, with some of the five words of TRUTH and with other words
    "forget": ["the boat", "at nine we sleep"],
    "retain": [TRUTH + " or ten or later", TRUTH],
    "real_authors": ["leaves at nine", "nine"],
    "world_facts": ["the boat leaves at night", TRUTH],
}
RECALL = {"forget": 0.4, "retain": 1.0, "real_authors": 0.4, "world_facts": 0.9}


def row(word: str, part: str, number: int) -> Any:
    return SimpleNamespace(word=word, part=part, number=number)


def rows(word: str, part: str, count: int) -> list[EncodedText]:
    return [row(word, part, number) for number in range(count)]


def nats(those: Sequence[Any]) -> list[float]:
    known = []
    for each in those:
        true, reworded, false = NATS[each.word]
        result = {"true": true, "paraphrased": reworded, "false": false, "asked": REWORDED}
        known.append(result[each.part][each.number])  # type: ignore[index]
    return known


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> TofuQuestions:
    """Answers of four tokens; the model generates the first one from its second token on."""
    sets = {}
    for word, (_, reworded, _) in NATS.items():
        answers = rows(word, "true", 2)
        other = answers if reworded is None else rows(word, "paraphrased", 2)
        prompts = PromptSet([np.array([at]) for at in range(2)], [TRUTH, TRUTH])
        again = rows(word, "asked", 2) if word == "forget" else []
        sets[word] = QuestionSet(answers, other, rows(word, "false", 4), again, prompts)
    names = iter(NATS)

    def tokens(_base_model: Any, those: Sequence[Any], *_others: Any) -> Any:
        log_p = -torch.tensor(nats(those), dtype=torch.float64)[:, None].expand(-1, 4)
        right = torch.tensor([[False, True, True, True], [True, True, True, False]])
        return log_p, torch.ones(2, 4, dtype=torch.bool), right

    def means(_base_model: Any, those: Sequence[Any], *_others: Any) -> Any:
        return torch.tensor(nats(those), dtype=torch.float64)

    monkeypatch.setattr(tofu, "token_log_probs", tokens)
    monkeypatch.setattr(tofu, "mean_nlls", means)
    monkeypatch.setattr(tofu, "generate_answers", lambda *_: ANSWERS[next(names)])
    return TofuQuestions(sets, TextEvaluation(benchmark="tofu"))


def test_figures_match_values_computed_by_hand(benchmark: TofuQuestions) -> None:
    result = benchmark.measure(None, lambda: None)  # type: ignore[arg-type]
    # R of a question = mean of exp(-false) / exp(-paraphrased).
    first = (exp(-2) + exp(-3)) / 2 / exp(-1)
    second = (exp(-0.5) + exp(-1)) / 2 / exp(-1.5)
    assert result["ratios"] == pytest.approx([first, second])
    assert first < 1 < second
    assert result["geometric_ratios"] == pytest.approx([exp(-2.5 + 1), exp(-0.75 + 1.5)])
    assert result["forget_truth_ratio"] == pytest.approx((first + 1 / second) / 2)
    assert result["forget_probability"] == pytest.approx((exp(-0.5) + exp(-2)) / 2)
    assert result["forget_reworded_probability"] == pytest.approx((exp(-1.2) + exp(-0.8)) / 2)
    # Given one token, three of four follow; of the other answer none.
    assert result["extraction_strength"] == pytest.approx((0.75 + 0.0) / 2)
    for word, expected in RECALL.items():
        assert result[f"{word}_rouge"] == pytest.approx(expected), word
    assert result["retain_probability"] == pytest.approx((exp(-0.2) + exp(-0.4)) / 2)
    # Multiple choice: the probability of the true answer among all options.
    options = [
        exp(-1.0) / (exp(-1.0) + exp(-2) + exp(-3)),
        exp(-0.1) / (exp(-0.1) + exp(-0.3) + exp(-0.4)),
    ]
    assert result["real_authors_probability"] == pytest.approx(sum(options) / 2)
    true = [exp(-0.7), exp(-0.9)]
    false = [(exp(-0.5) + exp(-1.1)) / 2, (exp(-2.5) + exp(-1.9)) / 2]
    ratios = [max(0.0, 1 - f / t) for f, t in zip(false, true, strict=True)]
    assert result["world_facts_truth_ratio"] == pytest.approx(sum(ratios) / 2)


def test_model_utility_leaves_out_the_forget_set(benchmark: TofuQuestions) -> None:
    result = benchmark.measure(None, lambda: None)  # type: ignore[arg-type]
    words = ("retain", "real_authors", "world_facts")
    nine = [
        result[f"{w}_{what}"] for w in words for what in ("probability", "rouge", "truth_ratio")
    ]
    assert result["model_utility"] == pytest.approx(9 / sum(1 / each for each in nine))
