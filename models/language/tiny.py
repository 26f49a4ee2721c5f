"""Tiny language model trained on given texts: tokenizer, Llama network and model folder.

The tiny model is for machines that have no model weights or no GPU. It has at most two million
parameters and memorises a few hundred facts within minutes on a CPU. With one thread, the same
texts and seed give the same model.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from models.initialisation import build_seeded
from models.language.errors import LanguageModelError
from models.language.trainable import make_all_trainable

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the caller shows its own progress

PAD, END = "<|pad|>", "<|end|>"
LARGEST = 2_000_000  # parameters of a tiny model, embeddings included
_SMALLEST_VOCABULARY = 256 + 2  # every byte, padding and end


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyShape:
    """Sizes of the network; input and output embeddings share their weights."""

    hidden: int = 128
    intermediate: int = 352
    layers: int = 6
    heads: int = 4
    key_heads: int = 4
    length: int = 512  # tokens that have a position


def train_tokenizer(
    texts: Iterable[str], vocabulary: int = 2000, chat_template: str | None = None
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer; it can encode any text and adds no token before a text.

    Raises:
        LanguageModelError: the vocabulary has fewer tokens than needed for all bytes.
    """
    if vocabulary < _SMALLEST_VOCABULARY:
        raise LanguageModelError(
            f"a vocabulary must have at least {_SMALLEST_VOCABULARY} tokens, to contain all bytes "
            f"(got {vocabulary})",
            hint="use 2000, the usual size",
        )
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=found, pad_token=PAD, eos_token=END, chat_template=chat_template
    )


def build_tiny_model(
    tokenizer: PreTrainedTokenizerFast, shape: TinyShape, seed: int
) -> LlamaForCausalLM:
    """Build the network for a tokenizer; the weights depend only on the sizes and ``seed``.

    Raises:
        LanguageModelError: the network has more than two million parameters, or the number of heads
            does not divide the hidden size, or the number of key heads does not divide the number
            of heads.
    """
    if shape.hidden % shape.heads or shape.heads % shape.key_heads:
        raise LanguageModelError(
            f"the hidden size ({shape.hidden}) must be a multiple of the number of heads "
            f"({shape.heads}), and the number of heads a multiple of the number of key heads "
            f"({shape.key_heads})",
            hint="change one of the three numbers",
        )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        max_position_embeddings=shape.length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    found = build_seeded(seed, lambda: LlamaForCausalLM(config))
    count = sum(parameter.numel() for parameter in found.parameters())
    if count > LARGEST:
        raise LanguageModelError(
            f"a tiny model must have at most {LARGEST} parameters (got {count})",
            hint="use a smaller vocabulary, fewer layers or a smaller hidden size",
        )
    make_all_trainable(found)
    return found


def encode_texts(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], length: int
) -> list[list[int]]:
    """Add an end token to each text; return all token ids in rows of up to ``length`` ids."""
    rows: list[list[int]] = []
    encode: Callable[[str], list[int]] = tokenizer.encode
    for text in texts:
        tokens = [*encode(text), int(str(tokenizer.eos_token_id))]
        rows += [tokens[start : start + length] for start in range(0, len(tokens), length)]
    return [row for row in rows if len(row) > 1]  # one token alone predicts nothing


def save_language_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Save weights (safetensors), config and tokenizer in the form for ``load_language_model``."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
