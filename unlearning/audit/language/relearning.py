"""Recovery: how much of what was forgotten comes back, by relearning or by rounding weights.

A figure of knowledge (probability, ROUGE-L) on *all* of the forget set is taken before, and after
every so many steps on a few per cent of it, or after quantisation; higher is more knowledge. What
counts is the comparison with a Retrain under the same steps: it learns too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unlearning.audit.relearning import anamnesis, steps_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Relearned:
    """What relearning brought back to a model, beside a Retrain."""

    recovered: float | None  # share of the original's lead that came back; see ``recovered``
    retrain_recovered: float | None
    steps: tuple[int, ...]  # points of the curve until within 5 % of the original, per order
    retrain_steps: tuple[int, ...]
    anamnesis: float | None  # mean steps over Retrain's; below 1, knowledge was still inside
    cap: int  # the last point; a model that never came so far counts with it


def recovered(before: float, after: float, original: float) -> float | None:
    """Return (after − before) / (original − before): 0 nothing came back, 1 all that was lost.

    None where nothing had been lost, so that nothing can come back.
    """
    return (after - before) / (original - before) if original > before else None


def relearned(
    ours: Sequence[Sequence[float]], retrain: Sequence[Sequence[float]], original: float
) -> Relearned:
    """Summarise curves of knowledge: one per order of the data, from before the first step on.

    Raises:
        ValueError: no curves, or they are not all of the same length, two points at least.
    """
    lengths = {len(curve) for curve in (*ours, *retrain)}
    if not ours or not retrain or len(lengths) != 1 or min(lengths) < 2:
        raise ValueError(
            f"{len(ours)} and {len(retrain)} curves of lengths {sorted(lengths)}; legal is one or "
            "more of each, all of the same length of 2 or more"
        )
    cap = lengths.pop() - 1
    steps, retrain_steps = (
        tuple(steps_until(curve, original, cap) for curve in curves) for curves in (ours, retrain)
    )
    return Relearned(
        recovered=_mean_recovered(ours, original),
        retrain_recovered=_mean_recovered(retrain, original),
        steps=steps,
        retrain_steps=retrain_steps,
        anamnesis=anamnesis(steps, retrain_steps),
        cap=cap,
    )


def _mean_recovered(curves: Sequence[Sequence[float]], original: float) -> float | None:
    """Return the share of the mean curve."""
    before, after = (sum(curve[i] for curve in curves) / len(curves) for i in (0, -1))
    return recovered(before, after, original)
