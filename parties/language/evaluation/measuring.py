"""What a client measures: how likely the model finds each of its answers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from parties.language.engine.base_model import Room
from parties.language.texts.batches import training_batch
from parties.language.texts.encoding import Encoded

MOST_ROWS = 32  # texts that are computed at a time,
MOST_LOGITS = 1 << 28  # if their logits are no more numbers: 1 GB in float32, and three of these


def at_once(longest: int, vocabulary: int) -> int:
    """How many texts of ``longest`` tokens are computed at a time."""
    return max(1, min(MOST_ROWS, MOST_LOGITS // (longest * vocabulary)))


@torch.no_grad()
def likelihoods(room: Room, rows: Sequence[Encoded]) -> tuple[Tensor, int]:
    """Mean nats a token of every answer, ``[rows]``, and how many are the likeliest throughout."""
    longest = max(len(each.ids) for each in rows)
    words = room.model.get_input_embeddings().get_parameter("weight").shape[0]
    size = at_once(longest, words)
    found = [_likelihoods(room, rows[at : at + size]) for at in range(0, len(rows), size)]
    return torch.cat([means for means, _ in found]), sum(exact for _, exact in found)


def _likelihoods(room: Room, rows: Sequence[Encoded]) -> tuple[Tensor, int]:
    """Only sums of rows leave the device."""
    batch = training_batch(rows, room.pad)
    with room.computing():
        logits = room.model(
            input_ids=batch.ids.to(room.device),
            attention_mask=batch.mask.to(room.device),
            use_cache=False,
        ).logits[:, :-1]
    labels = batch.labels[:, 1:].to(logits.device)
    told = labels.ne(-100)
    right = logits.argmax(dim=2).eq(labels) | ~told
    log_p = logits.float().log_softmax(dim=2)
    each = log_p.gather(2, labels.clamp_min(0).unsqueeze(2)).squeeze(2) * told
    means = -each.sum(dim=1) / told.sum(dim=1).clamp_min(1)
    return means.cpu(), int(right.all(dim=1).sum())
