"""The MUSE benchmark with a tiny model and generated files.

Prompts and texts are longer than the 64 tokens of a training text.
"""

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch

from configs.config_file import read_config
from configs.errors import ConfigError
from parties.common.errors import DataError
from parties.language.engine.base_model import BaseModel
from parties.language.engine.party import LanguageParty
from parties.language.evaluation.benchmarks import muse
from parties.language.evaluation.benchmarks.benchmark import Benchmark, open_benchmark
from parties.language.evaluation.metrics import BENCHMARK_FIGURES
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import set_up_language_party
from parties.report.columns import FEDERATED_COLUMNS
from tests.parties.language.ferries import SHAPE, facts, prepare_federation

TEXT = " ".join(f"{each['question']} {each['answer']}." for each in facts())
SETTINGS = (
    "evaluation.benchmark='muse'",
    "evaluation.quantise=true",
    "settings.server.benchmark={kind='muse', path='muse'}",
)


def corpus(folder: Path) -> None:
    """Write three questions and continuations, and four texts of about 460 tokens."""
    rows = facts()[:3]
    prompts = [{"prompt": TEXT[at : at + 500], "gt": TEXT[at + 500 : at + 700]} for at in range(3)]
    texts = [TEXT[at : at + 1000] for at in range(0, 80, 20)]
    parts = ("forget_qa", "retain_qa", "forget_qa_icl", "retain_qa_icl")
    files: dict[str, Any] = {f"knowmem/{part}": rows for part in parts}
    files |= {"verbmem/forget": prompts, "privleak/forget": texts, "privleak/holdout": texts[1:]}
    for name, content in files.items():
        path = folder / "muse" / "news" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def server(folder: Path, context: int, events: list[Any], *changes: str) -> LanguageParty:
    """Set up a server of which the base model has ``context`` tokens of context."""
    config, place = prepare_federation(folder, replace(SHAPE, length=context))
    corpus(folder)
    config_file = read_config(config.path, LANGUAGE, [*SETTINGS, *changes])
    return set_up_language_party(config_file, "server", place, events.append)


def warnings(events: list[Any]) -> list[str]:
    """Warnings, except for the one about keys."""
    texts = [each["text"] for each in events if each["event"] == "warning"]
    return [each for each in texts if "pins no keys" not in each]


def opened(party: LanguageParty) -> Benchmark:
    result = open_benchmark(party)
    assert result is not None
    return result


def test_prompts_may_be_longer_than_training_texts(tmp_path: Path) -> None:
    events: list[Any] = []
    party = server(tmp_path, 700, events, "model.length=64")
    base_model = party.base_model
    result = opened(party).measure(base_model, base_model.initial, lambda: None)
    assert 0 <= result["verbatim_memory"] <= 1
    assert not warnings(events)
    numbers = {name for name in result if name not in ("questions", "leak_auc", "leak_texts")}
    assert numbers <= set(BENCHMARK_FIGURES)
    known = {name for name in numbers if name.startswith("rounded")}
    assert known == {"rounded_8_knowledge", "rounded_4_knowledge"}, "the figure is no probability"
    assert known < {each.source[1] for each in FEDERATED_COLUMNS}


def test_texts_beyond_the_context_are_truncated_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    party = server(tmp_path, 400, events)
    read: list[int] = []

    def scores(_base_model: BaseModel, rows: Any, *_others: Any) -> Any:
        read.extend(len(each.ids) for each in rows)
        raise InterruptedError

    benchmark = opened(party)
    encoder = replace(party.base_model.encoder, longest=10_000)
    ended = [encoder.windows([TEXT[at : at + 1000]])[0].ids for at in range(0, 80, 20)]
    whole = [len(each) - 1 for each in ended]  # without the added end token
    beyond = sum(length - 400 for length in [*whole, *whole[1:]])
    assert min(whole) > 400
    (warning,) = warnings(events)
    assert warning == (
        "7 of 7 texts of the benchmark exceed the context of the base model, 400 tokens: "
        f"{beyond:,} tokens are not measured"
    )
    monkeypatch.setattr(muse, "token_log_probs", scores)
    with pytest.raises(InterruptedError):
        benchmark.measure(party.base_model, party.base_model.initial, lambda: None)
    assert read == [400] * 4


def test_privleak_reads_the_plain_text_and_counts_holdout_texts_as_positives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = server(tmp_path, 700, [], "evaluation.quantise=false")
    read: list[list[int]] = []

    def known(_base_model: BaseModel, rows: Any, *_others: Any) -> Any:
        """Lower log-probabilities for the first four texts, which are the forgotten ones."""
        read.extend(each.ids.tolist() for each in rows)
        likely = torch.full((1, 3), -5.0 if len(read) <= 4 else -1.0)
        return likely, torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)

    monkeypatch.setattr(muse, "token_log_probs", known)
    result = opened(party).measure(party.base_model, party.base_model.initial, lambda: None)
    assert result["leak_auc"] == 1.0
    tokenizer: Any = party.base_model.encoder.tokenizer
    assert read[0] == tokenizer(TEXT[:1000])["input_ids"]


def test_a_prompt_beyond_the_context_is_refused_when_the_benchmark_is_opened(
    tmp_path: Path,
) -> None:
    party = server(tmp_path, 300, [])
    with pytest.raises(
        DataError, match=r"^verbmem/forget: the prompt of row 0 has \d+ tokens"
    ) as error:
        open_benchmark(party)
    assert "128 of 300 tokens are reserved for the answer" in str(error.value)
    assert "a base model with a longer context" in error.value.hint
    assert "boat" not in str(error.value) + error.value.hint


def test_figures_with_missing_files_are_named(tmp_path: Path) -> None:
    events: list[Any] = []
    party = server(tmp_path, 700, events)
    for part in ("verbmem", "privleak"):
        rmtree(tmp_path / "muse" / "news" / part)
    result = opened(party).measure(party.base_model, party.base_model.initial, lambda: None)
    assert "forget_knowledge" in result
    assert not {"verbatim_memory", "leak_auc"} & set(result)
    assert warnings(events) == [
        "the benchmark's privleak/ is missing: PrivLeak is not measured",
        "the benchmark's verbmem/ is missing: verbatim memory is not measured",
    ]


def test_an_attacker_without_texts_is_refused_when_the_benchmark_is_opened(tmp_path: Path) -> None:
    changes = ("evaluation.relearn=2", "evaluation.relearn_share=0.001")
    with pytest.raises(ConfigError, match="selects no text or all texts"):
        open_benchmark(server(tmp_path, 700, [], *changes))


@pytest.mark.parametrize("more", ["\n\nAnd so on", "\nQuestion: Who?\nAnswer: I", "Question: Who?"])
def test_an_answer_ends_before_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    truths = [each["answer"] for each in facts()[:3]]
    monkeypatch.setattr(muse, "generate_answers", lambda *_: [truth + more for truth in truths])
    party = server(tmp_path, 700, [], "evaluation.quantise=false")
    result = opened(party).measure(party.base_model, party.base_model.initial, lambda: None)
    assert result["forget_knowledge"] == result["retain_knowledge"] == 1.0
