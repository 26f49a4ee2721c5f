"""Pre-training of a language model by next-token prediction, with progress reports.

Each text is one row, as in fine-tuning. A batch has rows of similar length, so that little padding
is needed. The optimiser is AdamW with a linear warm-up and a cosine decay to zero.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import cos, isfinite, pi

import torch
from torch import Tensor
from transformers import PreTrainedModel

from models.language.errors import LanguageModelError

IGNORED = -100  # the label of a position that is not predicted
_POOL = 50  # batches whose rows are sorted by length together
_LARGEST_GRADIENT = 1.0  # norm that gradients are clipped to


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """Settings of the pre-training of a language model."""

    epochs: int = 10
    batch: int = 32  # rows
    rate: float = 3e-3  # highest learning rate
    warm_up: float = 0.05  # share of the steps
    decay: float = 0.1  # of weights
    seed: int = 0  # of the order of rows


@dataclass(frozen=True, slots=True)
class PretrainingProgress:
    """Progress of the pre-training after one step."""

    step: int
    steps: int
    loss: float  # mean over the tokens of this step
    remaining: float  # seconds, at the present speed


def pretrain(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    plan: Pretraining,
    progress: Callable[[PretrainingProgress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Train all weights of ``model`` in place on rows of token ids; return the last epoch's loss.

    Raises:
        LanguageModelError: ``rows`` is empty, or the loss is not finite.
    """
    if not rows:
        raise LanguageModelError(
            "the list of texts for pre-training is empty", hint="give at least one text"
        )
    generator = torch.Generator().manual_seed(plan.seed)
    epochs = [list(_batches(rows, plan.batch, generator)) for _ in range(plan.epochs)]
    steps = sum(len(batches) for batches in epochs)
    optimiser = torch.optim.AdamW(model.parameters(), lr=plan.rate, weight_decay=plan.decay)
    start, step, mean = clock(), 0, float("nan")
    model.train()
    for batches in epochs:
        losses: list[float] = []
        for chosen in batches:
            tokens, mask = pad_rows([rows[row] for row in chosen], _pad(model))
            for group in optimiser.param_groups:
                group["lr"] = plan.rate * learning_rate_share(step, steps, plan.warm_up)
            losses.append(_step(model, optimiser, tokens, mask))
            step += 1
            passed = max(clock() - start, 1e-9)
            left = passed / step * (steps - step)
            progress(PretrainingProgress(step, steps, losses[-1], left))
        mean = sum(losses) / len(losses)
    model.train(False)
    return mean


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return token ids, padded on the right, and their mask, ``[batch, longest]`` each."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return tokens, mask


def learning_rate_share(step: int, steps: int, warm_up: float) -> float:
    """Return the learning rate at ``step``, counted from 0, as a fraction of the highest rate.

    The fraction rises linearly during the warm-up and then falls along half a cosine to zero.
    """
    rising = max(1, round(warm_up * steps))
    if step < rising:
        return (step + 1) / rising
    # Loshchilov & Hutter 2017 (arXiv 1608.03983) Eq 5, one cycle: ½ (1 + cos(π t / T)).
    return 0.5 * (1 + cos(pi * (step - rising) / max(1, steps - rising)))


def _batches(
    rows: Sequence[Sequence[int]], batch: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield batches of row numbers in random order, each row once, similar lengths together."""
    order = torch.randperm(len(rows), generator=generator).tolist()
    found: list[list[int]] = []
    for start in range(0, len(order), _POOL * batch):
        pool = sorted(order[start : start + _POOL * batch], key=lambda row: len(rows[row]))
        found += [pool[first : first + batch] for first in range(0, len(pool), batch)]
    for place in torch.randperm(len(found), generator=generator).tolist():
        yield found[place]


def _step(
    model: PreTrainedModel, optimiser: torch.optim.Optimizer, tokens: Tensor, mask: Tensor
) -> float:
    device = next(model.parameters()).device
    tokens, mask = tokens.to(device), mask.to(device)
    labels = tokens.masked_fill(mask == 0, IGNORED)
    loss = model(input_ids=tokens, attention_mask=mask, labels=labels).loss
    found = float(loss.detach())
    if not isfinite(found):
        raise LanguageModelError(
            f"pre-training diverged: the loss is {found}", hint="use a lower learning rate"
        )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), _LARGEST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad()
    return found


def _pad(model: PreTrainedModel) -> int:
    """Return the token for padding; the mask hides it, so any token is correct."""
    return int(model.config.pad_token_id or 0)
