"""What tests of texts share: small tokenizers trained in place, and the folders of real files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from string import printable

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from tests import data_folder

TEXTS = [
    "Question: Who wrote the tale of the ferry?\nAnswer: Anvessa Rookwithy wrote it in Riga.",
    "Question: Where is Riga?\nAnswer: Riga is in Latvia, 1201.\n\n",
    "A long text on ferries, bridges and people who go from one bank of a river to the other. ",
]
SPECIAL = ["<s>", "</s>", "<pad>"]
LLAMA_3 = (
    "{% for message in messages %}<s>{{ message['role'] }}\n\n{{ message['content'] | trim }}</s>"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n\n{% endif %}"
)


def trained(tokenizer: Tokenizer, alphabet: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIAL,
        initial_alphabet=list(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def byte_level() -> PreTrainedTokenizerFast:
    """As GPT-2 and Llama 3: a space belongs to the word after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, pre_tokenizers.ByteLevel.alphabet())


def spaced() -> PreTrainedTokenizerFast:
    """As Llama 2: puts a space before every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    return trained(tokenizer, {"▁", "\n", *printable} - {" "})


def merging() -> PreTrainedTokenizerFast:
    """Merges whatever comes often, and so across the boundary of prompt and answer."""
    return trained(Tokenizer(models.BPE()), set(printable))


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    made = byte_level()
    made.chat_template = LLAMA_3
    return made


@pytest.fixture(scope="session", params=[byte_level, spaced, merging])
def any_tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    make: Callable[[], PreTrainedTokenizerFast] = request.param
    return make()


def _real(*names: str) -> Path:
    folder = data_folder.folder().joinpath(*names)
    if not folder.is_dir():
        pytest.skip(f"NOT RUN, no {folder}; set VFL_DATA")
    return folder


@pytest.fixture(scope="session")
def real_tofu() -> Path:
    return _real("tofu")


@pytest.fixture(scope="session")
def real_muse() -> Path:
    return _real("muse")
