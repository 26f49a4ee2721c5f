"""ROUGE-L: how much of a reference comes back in what a model says, word for word in order.

Lin 2004, by the library rouge-score with Porter stemming. Words are runs of a–z and 0–9 after
lower-casing, so letters outside them part words and count for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

_SCORER = RougeScorer(["rougeL"], use_stemmer=True)


@dataclass(frozen=True, slots=True)
class RougeL:
    """Shares of the longest common subsequence of words."""

    recall: float  # of the reference's words: TOFU
    f1: float  # harmonic mean with that of the generated words: MUSE


def rouge_l(generated: str, reference: str) -> RougeL:
    """Compare one text with its reference; 0 where either has no word."""
    # Paper 000 Eq 12: LCS(a, â) / |a|.
    found = _SCORER.score(reference, generated)["rougeL"]
    return RougeL(float(found.recall), float(found.fmeasure))


def mean_rouge_l(generated: Sequence[str], references: Sequence[str]) -> RougeL:
    """Return the means over texts of recall and F1.

    Raises:
        ValueError: not one generated text for every reference, or none.
    """
    if len(generated) != len(references) or not references:
        raise ValueError(
            f"{len(generated)} generated texts for {len(references)} references; legal is one each"
        )
    found = [rouge_l(*pair) for pair in zip(generated, references, strict=True)]
    return RougeL(fmean(each.recall for each in found), fmean(each.f1 for each in found))
