"""A tiny language model made here from texts: tokenizer, Llama, pre-training, and its folder.

For machines without weights or GPU: at most two million numbers, which learn some hundred facts by
heart in minutes on a CPU. The same texts and seed make the same model with one thread.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from models.language.errors import LanguageModelError
from models.language.trainable import tune_all
from models.seeded import seeded

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # who calls shows its own

PAD, END = "<|pad|>", "<|end|>"
LARGEST = 2_000_000  # numbers of a tiny model, embeddings included
_SMALLEST_VOCABULARY = 256 + 2  # every byte, padding and end

# A conversation as plain questions and answers, for callers that want a template.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ {'user': 'Question: ', 'assistant': 'Answer: ', 'system': ''}[message['role']] }}"
    "{{ message['content'] }}"
    "{{ '<|end|>' if message['role'] == 'assistant' else '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Answer:' }}{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyShape:
    """The network; the embeddings are tied."""

    hidden: int = 128
    intermediate: int = 352
    layers: int = 6
    heads: int = 4
    key_heads: int = 4
    length: int = 512  # tokens that positions are made for


def train_tokenizer(
    texts: Iterable[str], vocabulary: int = 2000, chat_template: str | None = None
) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE; any text can be written in it, and nothing is put before a text.

    Raises:
        LanguageModelError: the vocabulary has no place for all bytes.
    """
    if vocabulary < _SMALLEST_VOCABULARY:
        raise LanguageModelError(
            f"a vocabulary of {vocabulary} has no place for all bytes",
            hint=f"{_SMALLEST_VOCABULARY} is the least, 2000 is usual",
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


def build_tiny(tokenizer: PreTrainedTokenizerFast, shape: TinyShape, seed: int) -> LlamaForCausalLM:
    """Build the network for a tokenizer, its weights a function of ``seed`` alone.

    Raises:
        LanguageModelError: it has more than two million numbers, or heads that do not divide.
    """
    if shape.hidden % shape.heads or shape.heads % shape.key_heads:
        raise LanguageModelError(
            f"{shape.hidden} columns, {shape.heads} heads and {shape.key_heads} key heads do not "
            "divide one another"
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
    found = seeded(seed, lambda: LlamaForCausalLM(config))
    count = sum(parameter.numel() for parameter in found.parameters())
    if count > LARGEST:
        raise LanguageModelError(
            f"the model has {count} numbers, and a tiny one {LARGEST} at most",
            hint="take a smaller vocabulary, fewer layers or fewer columns",
        )
    tune_all(found)
    return found


def encode_texts(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], length: int
) -> list[list[int]]:
    """Token ids of every text with the end token after it, cut into windows of ``length``."""
    rows: list[list[int]] = []
    encode: Callable[[str], list[int]] = tokenizer.encode
    for text in texts:
        tokens = [*encode(text), int(str(tokenizer.eos_token_id))]
        rows += [tokens[start : start + length] for start in range(0, len(tokens), length)]
    return [row for row in rows if len(row) > 1]  # one token predicts nothing


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights as safetensors, config and tokenizer: a folder that ``loading`` reads."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
