"""Small tokenizers of three kinds, trained on a few texts within the test."""

from collections.abc import Iterable
from string import printable

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

TEXTS = [
    "Question: Who wrote the tale of the ferry?\nAnswer: Anvessa Rookwithy wrote it in Riga.",
    "Question: Where is Riga?\nAnswer: Riga is in Latvia, 1201.\n\n",
    "A long text on ferries, bridges and people who go from one bank of a river to the other. ",
]
SPECIAL = ["<s>", "</s>", "<pad>"]


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
    """Like those of GPT-2 and Llama 3: a space is a part of the next word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, pre_tokenizers.ByteLevel.alphabet())


def spaced() -> PreTrainedTokenizerFast:
    """Like that of Llama 2: adds a space before every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    return trained(tokenizer, {"▁", "\n", *printable} - {" "})


def merging() -> PreTrainedTokenizerFast:
    """Has no word boundaries, so it merges characters of prompt and answer."""
    return trained(Tokenizer(models.BPE()), set(printable))
