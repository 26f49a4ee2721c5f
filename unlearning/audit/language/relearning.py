"""Recovery: how much of what was forgotten comes back by learning a part of it again.

A figure of knowledge (probability, ROUGE-L) on the rest is taken before and after; higher is more
knowledge. What counts is the comparison with a Retrain under the same steps: it learns too.
"""


def recovered(before: float, after: float, original: float) -> float | None:
    """Return (after − before) / (original − before): 0 nothing came back, 1 all that was lost.

    None where nothing had been lost, so that nothing can come back.
    """
    return (after - before) / (original - before) if original > before else None
