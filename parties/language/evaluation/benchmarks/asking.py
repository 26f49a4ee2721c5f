"""Asking a language model: likelihoods of answers, and what it says by itself."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.language.engine.base_model import Room
from parties.language.texts.batches import prompt_batch, training_batch
from parties.language.texts.encoding import Encoded

Step = Callable[[], None]


def quiet() -> None:
    """Nobody hears of the progress."""


@torch.no_grad()
def token_log_probs(
    room: Room, rows: Sequence[Encoded], size: int, step: Step = quiet
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of the learned tokens, ``[rows, tokens]``, their mask, and the likeliest.

    The third is True where the token is what the model itself would have said there.
    """
    parts = []
    order = sorted(range(len(rows)), key=lambda at: len(rows[at].ids))
    for at in range(0, len(rows), size):
        chosen = [rows[place] for place in order[at : at + size]]
        parts.append(_known(room, chosen))
        step()
    width = max(log_p.shape[1] for log_p, _, _ in parts)
    stacked = [
        torch.cat([_wide(each, width) for each in kind]) for kind in zip(*parts, strict=True)
    ]
    back = torch.tensor(order).argsort()
    log_p, mask, right = (each[back] for each in stacked)
    return log_p, mask.bool(), right.bool()


def mean_nlls(room: Room, rows: Sequence[Encoded], size: int, step: Step = quiet) -> Tensor:
    """Mean nats a token of every answer, ``[rows]``."""
    log_p, mask, _ = token_log_probs(room, rows, size, step)
    found: Tensor = -(log_p * mask).sum(dim=1) / mask.sum(dim=1)
    return found


@torch.no_grad()
def said(
    room: Room, prompts: Sequence[Index], tokens: int, size: int, step: Step = quiet
) -> list[str]:
    """What the model goes on to say, greedily, up to its end token, without the prompt."""
    texts = [""] * len(prompts)
    tokenizer: Any = room.encoder.tokenizer
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    for at in range(0, len(prompts), size):
        places = order[at : at + size]
        batch = prompt_batch([prompts[place] for place in places], room.pad)
        model: Any = room.model
        with room.computing():
            out = model.generate(
                input_ids=batch.ids.to(room.device),
                attention_mask=batch.mask.to(room.device),
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=room.encoder.end,
                pad_token_id=room.pad,
            )
        answers = tokenizer.batch_decode(out[:, batch.ids.shape[1] :], skip_special_tokens=True)
        for place, answer in zip(places, answers, strict=True):
            texts[place] = answer
        step()
    return texts


def _known(room: Room, rows: Sequence[Encoded]) -> tuple[Tensor, Tensor, Tensor]:
    batch = training_batch(rows, room.pad)
    model: Any = room.model
    with room.computing():
        logits = model(
            input_ids=batch.ids.to(room.device),
            attention_mask=batch.mask.to(room.device),
            use_cache=False,
        ).logits[:, :-1]
    labels = batch.labels[:, 1:].to(logits.device)
    told, place = labels.ne(-100), labels.clamp_min(0)
    log_p = logits.float().log_softmax(dim=2).gather(2, place.unsqueeze(2)).squeeze(2)
    right = logits.argmax(dim=2).eq(labels) & told
    return (log_p * told).cpu(), told.cpu(), right.cpu()


def _wide(part: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(part, (0, width - part.shape[1]))
