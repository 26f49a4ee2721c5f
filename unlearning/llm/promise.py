"""What the ways to unlearn a language model promise: a level, and a sentence for the report."""

from dataclasses import dataclass

from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Promise:
    """A level of promise and what it leaves open; a method's report prints both."""

    level: Guarantee
    text: str


def measured(remark: str) -> Promise:
    """Return the promise of a method that has nothing but figures; ``remark`` is its weakness."""
    return Promise(Guarantee.HEURISTIC, f"no certificate; measured. {remark}")
