"""Configs of the base models of paper 000, as their publishers give them."""

from transformers import LlamaConfig


def paper_configs() -> dict[str, LlamaConfig]:
    """Return the configs by name of the model."""
    return {
        "Llama-3.2-1B": _llama(2048, 8192, 16, 32, 8, 128256, tied=True),
        "Llama-3.2-3B": _llama(3072, 8192, 28, 24, 8, 128256, tied=True),
        "Llama-3.1-8B": _llama(4096, 14336, 32, 32, 8, 128256, tied=False),
        "Llama-2-7B": _llama(4096, 11008, 32, 32, 32, 32000, tied=False),
    }


def _llama(
    hidden: int,
    between: int,
    layers: int,
    heads: int,
    key_heads: int,
    vocabulary: int,
    *,
    tied: bool,
) -> LlamaConfig:
    """Return a config in which each head has hidden / heads columns."""
    return LlamaConfig(
        hidden_size=hidden,
        intermediate_size=between,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
    )
