"""Recovery: how much of what was forgotten comes back by learning a part of it again.

A figure of knowledge (probability, ROUGE-L) on the rest is taken before and after; higher is more
knowledge. What counts is the comparison with a Retrain under the same steps: it learns too.
"""

LEAST = 0.1  # of the original's knowledge; who lost less has nothing to speak of that can come back


def recovered(before: float, after: float, original: float) -> float | None:
    """Return (after − before) / (original − before): 0 nothing came back, 1 all that was lost.

    None where less than ``LEAST`` of the original's was lost.
    """
    lost = original - before
    return (after - before) / lost if lost > LEAST * original else None
