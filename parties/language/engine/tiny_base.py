"""Tiny base model, pre-trained on public texts, for machines without downloaded weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.language.pretraining import Pretraining, PretrainingProgress, pretrain
from models.language.tiny import (
    TinyShape,
    build_tiny_model,
    encode_texts,
    save_language_model,
    train_tokenizer,
)
from parties.common.errors import StorageError
from parties.common.progress import ProgressListener, ProgressReporter
from parties.language.texts.own_texts import read_plain_texts
from parties.language.texts.public_texts import (
    PublicText,
    refuse_private_answers,
    shuffled_public_texts,
)
from parties.language.texts.records import Passage, QuestionAnswer
from parties.language.texts.templates import PlainTemplate
from parties.language.texts.tofu import read_tofu_split

SHAPE = TinyShape(hidden=128, intermediate=384, layers=4, length=512)
FACT_SPLITS = ("real_authors", "world_facts")
REPEATS = 8  # copies of a fact in an epoch; a real base model knows these facts
VOCABULARY, ROWS, LENGTH = 2000, 16, 512
PUBLIC_FILE = "public.jsonl"  # the facts, which clients repeat during fine-tuning


@dataclass(frozen=True, slots=True)
class TinyBasePlan:
    """Data and settings of the pre-training."""

    tofu: Path  # folder with TOFU's files
    # Number of TOFU's first rows that the clients will use. These rows and TOFU's forget splits are
    # excluded from the pre-training.
    clients: int
    english: tuple[Path, ...]  # plain text files with English texts
    epochs: int  # number of passes over the texts
    seed: int  # seed of weights and batch order
    threads: int  # number of threads; another number of threads gives other results


def build_tiny_base(out: Path, recipe: TinyBasePlan, listener: ProgressListener) -> None:
    """Train a tokenizer and a model; write both, and TOFU's public questions, to ``out``.

    Raises:
        StorageError: ``out`` is not empty.
        DataError: TOFU's files or the English files cannot be read.
        PolicyError: a public text contains an answer from the clients' texts.
    """
    if out.exists() and any(out.iterdir()):
        raise StorageError(f"{out} is not empty", "choose a new folder")
    progress = ProgressReporter("tiny", listener)
    torch.set_num_threads(recipe.threads)
    facts = [row for part in FACT_SPLITS for row in read_tofu_split(recipe.tofu, part)]
    texts = _texts(recipe, facts)
    tokenizer = train_tokenizer(dict.fromkeys(texts), VOCABULARY)
    model = build_tiny_model(tokenizer, SHAPE, recipe.seed)
    rows = encode_texts(tokenizer, texts, LENGTH)
    plan = Pretraining(epochs=recipe.epochs, batch=ROWS, seed=recipe.seed)
    total = recipe.epochs * -(-len(rows) // ROWS)

    def report(done: PretrainingProgress) -> None:
        if done.step == 1:
            weights = sum(each.numel() for each in model.parameters())
            progress.phase(f"pre-training {weights:,} weights", total)
        progress.step()

    pretrain(model, rows, plan, report)
    save_language_model(model, tokenizer, out)
    lines = [json.dumps({"question": e.question, "answer": e.answer}) for e in facts]
    (out / PUBLIC_FILE).write_text("\n".join(lines) + "\n")


def _texts(recipe: TinyBasePlan, facts: Sequence[QuestionAnswer]) -> list[str]:
    """All public texts of one epoch, in the form of the prompts."""
    full = read_tofu_split(recipe.tofu, "full")
    forget = len(read_tofu_split(recipe.tofu, "forget10"))
    others = full[recipe.clients : len(full) - forget]
    english = read_plain_texts(Path(), recipe.english)
    found = shuffled_public_texts(facts, english, REPEATS, recipe.seed)
    public: list[PublicText] = [*found, *others]
    refuse_private_answers(public, [*full[: recipe.clients], *full[len(full) - forget :]])
    return [_written(each) for each in public]


def _written(text: PublicText) -> str:
    if isinstance(text, Passage):
        return text.text
    return PlainTemplate().prompt(text.question) + text.answer
