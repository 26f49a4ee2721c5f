"""Likelihood of answers under a language model, as clients measure it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from parties.language.engine.base_model import BaseModel
from parties.language.texts.batches import training_batch
from parties.language.texts.encoding import EncodedText

MAX_ROWS = 32  # texts in one forward pass
MAX_LOGITS = 1 << 28  # logits of one forward pass: 1 GB in float32, of which there are three copies


def rows_per_pass(longest: int, vocabulary: int) -> int:
    """Return how many texts, of ``longest`` tokens each, one forward pass may contain."""
    return max(1, min(MAX_ROWS, MAX_LOGITS // (longest * vocabulary)))


@torch.no_grad()
def answer_losses(base_model: BaseModel, rows: Sequence[EncodedText]) -> tuple[Tensor, int]:
    """Return each answer's mean loss per token, ``[rows]`` in nats, and the count of exact answers.

    An answer is exact if the model gives the highest probability to each token of the answer.
    """
    longest = max(len(each.ids) for each in rows)
    vocabulary = base_model.model.get_input_embeddings().get_parameter("weight").shape[0]
    size = rows_per_pass(longest, vocabulary)
    found = [_batch_losses(base_model, rows[at : at + size]) for at in range(0, len(rows), size)]
    return torch.cat([means for means, _ in found]), sum(exact for _, exact in found)


def answer_logits(base_model: BaseModel, rows: Sequence[EncodedText]) -> tuple[Tensor, Tensor]:
    """Compute one forward pass.

    Returns:
        The logits from which each token after the first one is predicted,
        ``[rows, tokens - 1, vocabulary]``, and the labels of these tokens, ``[rows, tokens - 1]``;
        -100 for a token without label.
    """
    batch = training_batch(rows, base_model.pad_token)
    model: Any = base_model.model
    with base_model.autocast():
        logits: Tensor = model(
            input_ids=batch.ids.to(base_model.device),
            attention_mask=batch.mask.to(base_model.device),
            use_cache=False,
        ).logits[:, :-1]
    return logits, batch.labels[:, 1:].to(logits.device)


def _batch_losses(base_model: BaseModel, rows: Sequence[EncodedText]) -> tuple[Tensor, int]:
    """The losses of one forward pass; only one number per row leaves the device."""
    logits, labels = answer_logits(base_model, rows)
    has_label = labels.ne(-100)
    right = logits.argmax(dim=2).eq(labels) | ~has_label
    log_p = logits.float().log_softmax(dim=2)
    of_labels = log_p.gather(2, labels.clamp_min(0).unsqueeze(2)).squeeze(2) * has_label
    means = -of_labels.sum(dim=1) / has_label.sum(dim=1).clamp_min(1)
    return means.cpu(), int(right.all(dim=1).sum())
