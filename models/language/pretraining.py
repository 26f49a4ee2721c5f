"""Pre-training by next-token prediction, with a report of how it goes.

Texts stay apart, one a row, as they are in fine-tuning; rows of like length share a batch, so that
little is padded. AdamW with a linear warm-up and a cosine to zero.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import cos, isfinite, pi

import torch
from torch import Tensor
from transformers import PreTrainedModel

from models.language.errors import LanguageModelError

IGNORED = -100  # the label of a position that is not to be predicted
_POOL = 50  # batches whose rows are sorted by length together
_LARGEST_GRADIENT = 1.0  # norm that gradients are clipped to


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """How long and how fast."""

    epochs: int = 10
    batch: int = 32  # rows
    rate: float = 3e-3  # the highest
    warm_up: float = 0.05  # share of the steps
    decay: float = 0.1  # of weights
    seed: int = 0  # of the order of rows


@dataclass(frozen=True, slots=True)
class Progress:
    """How it stands after a step."""

    step: int
    steps: int
    loss: float  # mean of the tokens of this step
    tokens_per_second: float  # since the beginning
    remaining: float  # seconds, at the pace so far


def pretrain(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    plan: Pretraining,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Train all weights of ``model`` in place on rows of token ids; return the last epoch's loss.

    Raises:
        LanguageModelError: there is no row, or the loss is no longer finite.
    """
    if not rows:
        raise LanguageModelError("there is no text to pre-train on", hint="give texts")
    generator = torch.Generator().manual_seed(plan.seed)
    epochs = [list(_batches(rows, plan.batch, generator)) for _ in range(plan.epochs)]
    steps = sum(len(batches) for batches in epochs)
    optimiser = torch.optim.AdamW(model.parameters(), lr=plan.rate, weight_decay=plan.decay)
    start, seen, step, mean = clock(), 0, 0, float("nan")
    model.train()
    for batches in epochs:
        losses: list[float] = []
        for chosen in batches:
            tokens, mask = padded([rows[row] for row in chosen], _pad(model))
            for group in optimiser.param_groups:
                group["lr"] = plan.rate * pace(step, steps, plan.warm_up)
            losses.append(_step(model, optimiser, tokens, mask))
            step, seen = step + 1, seen + int(mask.sum())
            passed = max(clock() - start, 1e-9)
            left = passed / step * (steps - step)
            progress(Progress(step, steps, losses[-1], seen / passed, left))
        mean = sum(losses) / len(losses)
    model.train(False)
    return mean


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Tokens and mask, ``[batch, longest]`` each, padded on the right."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return tokens, mask


def pace(step: int, steps: int, warm_up: float) -> float:
    """The share of the highest rate at a step from 0: up in a line, then down a half cosine."""
    rising = max(1, round(warm_up * steps))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + cos(pi * (step - rising) / max(1, steps - rising)))


def _batches(
    rows: Sequence[Sequence[int]], batch: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Every row once, rows of like length together, batches in random order."""
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
        raise LanguageModelError("pre-training diverged", hint="take a lower rate")
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), _LARGEST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad()
    return found


def _pad(model: PreTrainedModel) -> int:
    """Any token would do: the mask hides it."""
    return int(model.config.pad_token_id or 0)
