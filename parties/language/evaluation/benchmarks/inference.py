"""Inference with a language model: log-probabilities of answers, and generation."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.language.engine.answer_likelihood import answer_logits
from parties.language.engine.base_model import BaseModel
from parties.language.texts.batches import prompt_batch
from parties.language.texts.encoding import EncodedText

ProgressStep = Callable[[], None]


def no_progress() -> None:
    """Do nothing, because the caller needs no progress reports."""


@torch.no_grad()
def token_log_probs(
    base_model: BaseModel,
    rows: Sequence[EncodedText],
    size: int,
    step: ProgressStep = no_progress,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probabilities of the true tokens, the label mask, and a mask of exact tokens.

    All three results are ``[rows, tokens]``. The label mask is True for tokens with a label. The
    mask of exact tokens is True where a token with a label has the highest probability of all
    tokens. ``size`` is the batch size.
    """
    parts = []
    order = sorted(range(len(rows)), key=lambda at: len(rows[at].ids))
    for at in range(0, len(rows), size):
        chosen = [rows[place] for place in order[at : at + size]]
        parts.append(_batch_log_probs(base_model, chosen))
        step()
    width = max(log_p.shape[1] for log_p, _, _ in parts)
    stacked = [
        torch.cat([_padded(each, width) for each in kind]) for kind in zip(*parts, strict=True)
    ]
    back = torch.tensor(order).argsort()
    log_p, mask, right = (each[back] for each in stacked)
    return log_p, mask.bool(), right.bool()


def mean_nlls(
    base_model: BaseModel,
    rows: Sequence[EncodedText],
    size: int,
    step: ProgressStep = no_progress,
) -> Tensor:
    """Return the mean loss per token of each answer, ``[rows]``, in nats."""
    log_p, mask, _ = token_log_probs(base_model, rows, size, step)
    found: Tensor = -(log_p * mask).sum(dim=1) / mask.sum(dim=1)
    return found


@torch.no_grad()
def generate_answers(
    base_model: BaseModel,
    prompts: Sequence[Index],
    tokens: int,
    size: int,
    step: ProgressStep = no_progress,
) -> list[str]:
    """Generate a text for each prompt by greedy decoding; each prompt is ``[tokens]``.

    Generation stops at the end token or after ``tokens`` tokens. The returned texts do not include
    the prompts. ``size`` is the batch size.
    """
    texts = [""] * len(prompts)
    tokenizer: Any = base_model.encoder.tokenizer
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    for at in range(0, len(prompts), size):
        places = order[at : at + size]
        batch = prompt_batch([prompts[place] for place in places], base_model.pad_token)
        model: Any = base_model.model
        with base_model.autocast():
            out = model.generate(
                input_ids=batch.ids.to(base_model.device),
                attention_mask=batch.mask.to(base_model.device),
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=base_model.encoder.end,
                pad_token_id=base_model.pad_token,
            )
        answers = tokenizer.batch_decode(out[:, batch.ids.shape[1] :], skip_special_tokens=True)
        for place, answer in zip(places, answers, strict=True):
            texts[place] = answer
        step()
    return texts


def _batch_log_probs(
    base_model: BaseModel, rows: Sequence[EncodedText]
) -> tuple[Tensor, Tensor, Tensor]:
    logits, labels = answer_logits(base_model, rows)
    has_label, place = labels.ne(-100), labels.clamp_min(0)
    log_p = logits.float().log_softmax(dim=2).gather(2, place.unsqueeze(2)).squeeze(2)
    right = logits.argmax(dim=2).eq(labels) & has_label
    return (log_p * has_label).cpu(), has_label.cpu(), right.cpu()


def _padded(part: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(part, (0, width - part.shape[1]))
