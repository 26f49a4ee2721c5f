"""Micro-batches: parts of a training batch that are computed one after the other to save memory.

The loss of a step is γ F + α R, where F is the forget term and R is the retain term. Each term is a
mean: for some objectives over rows (``ROW_MEANS``), for the others over the label tokens of the
rows. The mean of a micro-batch is multiplied by a weight: the fraction of all rows, or of all label
tokens, that the micro-batch contains. Therefore the sum of the losses of all micro-batches equals
the loss of the whole step, and the sum of the gradients equals the gradient of the whole step. Only
with dropout do the results differ, because dropout samples other random numbers if the batch is
divided into micro-batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parties.horizontal.local.local_task import Objective
from parties.language.texts.batches import TextBatch, training_batch
from parties.language.texts.encoding import IGNORED_LABEL, EncodedText

# Objectives whose forget term is a mean over rows; for RMU, the retain term is such a mean as well.
ROW_MEANS: tuple[Objective, ...] = ("npo", "simnpo", "rmu", "primal-dual")


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """One micro-batch: some rows of a training step."""

    forget: TextBatch  # rows to forget; if the objective is ``learn``, the rows to train on instead
    # Retained rows, as many as in ``forget``; None if the step uses no retained rows.
    retain: TextBatch | None = None
    forget_share: float = 1.0  # weight of this micro-batch in the mean of the forget term
    retain_share: float = 1.0  # weight of this micro-batch in the mean of the retain term


def micro_batches(
    forget: Sequence[EncodedText],
    retain: Sequence[EncodedText],
    size: int | None,
    pad: int,
    objective: Objective = "learn",
) -> Iterator[MicroBatch]:
    """Yield the rows of a step in micro-batches.

    Args:
        forget: rows to forget; if the objective is ``learn``, the rows to train on instead.
        retain: retained rows, as many as in ``forget``; empty if the step uses no retained rows.
        size: maximum number of rows that a micro-batch has for each term; None for a single
            micro-batch.
        pad: id of the padding token.
        objective: objective of the step.
    """
    by_rows, both = objective in ROW_MEANS, objective == "rmu"
    for at in range(0, len(forget), size or len(forget)):
        some = slice(at, at + (size or len(forget)))
        beside = retain[some]
        yield MicroBatch(
            training_batch(forget[some], pad),
            training_batch(beside, pad) if beside else None,
            _weight(forget[some], by_rows=by_rows) / _weight(forget, by_rows=by_rows),
            _weight(beside, by_rows=both) / _weight(retain, by_rows=both) if beside else 1.0,
        )


def _weight(rows: Sequence[EncodedText], *, by_rows: bool) -> int:
    return len(rows) if by_rows else sum(map(_label_tokens, rows))


def _label_tokens(row: EncodedText) -> int:
    """Number of tokens with a loss; the first token is never predicted."""
    return int(np.count_nonzero(row.labels[1:] != IGNORED_LABEL))
