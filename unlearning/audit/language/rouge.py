"""ROUGE-L: longest common subsequence of words of a generated text and its reference.

The library rouge-score computes ROUGE-L (Lin 2004) with Porter stemming. Words are sequences of a–z
and 0–9 after lower-casing; all other characters only separate words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

_SCORER = RougeScorer(["rougeL"], use_stemmer=True)


@dataclass(frozen=True, slots=True)
class RougeL:
    """Recall and F1 of the longest common subsequence of words."""

    recall: float  # of the reference's words: TOFU
    f1: float  # harmonic mean with the share of the generated words: MUSE


def rouge_l(generated: str, reference: str) -> RougeL:
    """Compare a generated text with its reference; recall and F1 are 0 if a text has no word."""
    # Oblivionis (paper 000) Eq 12: LCS(a, â) / |a|.
    found = _SCORER.score(reference, generated)["rougeL"]
    return RougeL(float(found.recall), float(found.fmeasure))


def mean_rouge_l(generated: Sequence[str], references: Sequence[str]) -> RougeL:
    """Return the mean recall and the mean F1 over all pairs of a generated text and its reference.

    Raises:
        ValueError: the numbers of generated texts and references differ, or there is no text.
    """
    if len(generated) != len(references) or not references:
        raise ValueError(
            f"ROUGE-L needs one generated text for each reference, and at least one "
            f"(got {len(generated)} texts for {len(references)} references)"
        )
    found = [rouge_l(*pair) for pair in zip(generated, references, strict=True)]
    return RougeL(fmean(each.recall for each in found), fmean(each.f1 for each in found))
