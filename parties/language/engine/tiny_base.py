"""A tiny base model made from public texts, for machines without weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.language.pretraining import Pretraining, Progress, pretrain
from models.language.tiny import TinyShape, build_tiny, encode_texts, save_model, train_tokenizer
from parties.common.errors import StorageError
from parties.common.progress import Listener, Watch
from parties.language.texts.own import read_plain
from parties.language.texts.public import Mixture, Public, public_texts, refuse_private
from parties.language.texts.records import Passage, Question
from parties.language.texts.templates import Plain
from parties.language.texts.tofu import read_split

SHAPE = TinyShape(hidden=128, intermediate=384, layers=4, length=512)
KNOWN = ("real_authors", "world_facts")
REPEATS = 8  # of a known fact in an epoch: a pre-trained model brings them
VOCABULARY, ROWS, LENGTH = 2000, 16, 512
PUBLIC = "public.jsonl"  # the known facts, which clients go over while they learn


@dataclass(frozen=True, slots=True)
class Recipe:
    """What it is made of.

    Attributes:
        tofu: folder with TOFU's files.
        clients: the first rows of TOFU, which clients hold; with the forget splits they stay out.
    """

    tofu: Path
    clients: int
    english: tuple[Path, ...]
    epochs: int
    seed: int
    threads: int


def make_tiny(out: Path, recipe: Recipe, listener: Listener) -> None:
    """Train a tokenizer and a model, and write both.

    Raises:
        StorageError: there is something in ``out`` already.
        DataError: TOFU's files are not there.
        PolicyError: a public text holds what a client's answer says.
    """
    if out.exists() and any(out.iterdir()):
        raise StorageError(f"{out} is not empty", "name a new folder")
    watch = Watch("tiny", listener)
    torch.set_num_threads(recipe.threads)
    known = [row for part in KNOWN for row in read_split(recipe.tofu, part)]
    texts = _texts(recipe, known)
    tokenizer = train_tokenizer(dict.fromkeys(texts), VOCABULARY)
    model = build_tiny(tokenizer, SHAPE, recipe.seed)
    rows = encode_texts(tokenizer, texts, LENGTH)
    plan = Pretraining(epochs=recipe.epochs, batch=ROWS, seed=recipe.seed)
    total = recipe.epochs * -(-len(rows) // ROWS)

    def told(each: Progress) -> None:
        if each.step == 1:
            watch.phase(
                f"pre-training {sum(p.numel() for p in model.parameters()):,} numbers", total
            )
        watch.step()

    pretrain(model, rows, plan, told)
    save_model(model, tokenizer, out)
    lines = [json.dumps({"question": e.question, "answer": e.answer}) for e in known]
    (out / PUBLIC).write_text("\n".join(lines) + "\n")


def _texts(recipe: Recipe, known: Sequence[Question]) -> list[str]:
    """All public texts of one epoch, as they will be asked."""
    full = read_split(recipe.tofu, "full")
    gone = len(read_split(recipe.tofu, "forget10"))
    others = full[recipe.clients : len(full) - gone]
    mixture = Mixture(authors=0, repeats=REPEATS)
    found = public_texts(known, read_plain(Path(), recipe.english), mixture, recipe.seed)
    public: list[Public] = [*found, *others]
    refuse_private(public, [*full[: recipe.clients], *full[len(full) - gone :]])
    return [_written(each) for each in public]


def _written(text: Public) -> str:
    if isinstance(text, Passage):
        return text.text
    return Plain().prompt(text.question) + text.answer
