"""A step's rows in pieces that are computed one after the other, so that less is held at a time.

The loss of a step is γ F + α R, each of F and R a mean over the label tokens of its rows, or over
the rows. A piece's means, times its share of these tokens or rows, sum to those of the whole step;
so do their gradients. Only what dropout draws is another draw.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parties.horizontal.local.text_task import Objective
from parties.language.texts.batches import Batch, training_batch
from parties.language.texts.encoding import IGNORED, Encoded

# Objectives whose forgetting term is a mean over rows; of RMU, the retain term is one as well.
BY_ROWS: tuple[Objective, ...] = ("npo", "simnpo", "rmu", "primal-dual")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of a step.

    Attributes:
        forget: what the objective is about; all there is where a client only learns.
        retain: as many rows that stay; None: there are none.
        forgets: the piece's share of the first term's mean.
        retains: of the second's.
    """

    forget: Batch
    retain: Batch | None = None
    forgets: float = 1.0
    retains: float = 1.0


def pieces(
    forget: Sequence[Encoded],
    retain: Sequence[Encoded],
    size: int | None,
    pad: int,
    objective: Objective = "learn",
) -> Iterator[Piece]:
    """All rows of a step at once, or ``size`` of them at a time; ``retain`` are as many or none."""
    by_rows, both = objective in BY_ROWS, objective == "rmu"
    for at in range(0, len(forget), size or len(forget)):
        some = slice(at, at + (size or len(forget)))
        beside = retain[some]
        yield Piece(
            training_batch(forget[some], pad),
            training_batch(beside, pad) if beside else None,
            _weight(forget[some], by_rows=by_rows) / _weight(forget, by_rows=by_rows),
            _weight(beside, by_rows=both) / _weight(retain, by_rows=both) if beside else 1.0,
        )


def _weight(rows: Sequence[Encoded], *, by_rows: bool) -> int:
    return len(rows) if by_rows else sum(map(_label_tokens, rows))


def _label_tokens(row: Encoded) -> int:
    """A first token is predicted from nothing."""
    return int(np.count_nonzero(row.labels[1:] != IGNORED))
