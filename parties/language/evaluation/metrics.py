"""What the models of a request amount to: each figure of each language model beside Retrain's.

Letters: D_u = the forgotten texts, R = the truth ratios of a benchmark's forgotten questions.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from parties.horizontal.engine.cohort import Score
from parties.horizontal.evaluation.metrics import FEW, is_retrain
from parties.horizontal.evaluation.outcome import Outcome, Scores, of_clients
from parties.horizontal.local.score_histogram import apart, pooled, spread
from parties.horizontal.registry import ORIGINAL
from unlearning.audit.figure import Direction, Figure, Measured, table
from unlearning.audit.intervals import of_auc
from unlearning.audit.language.forget_quality import forget_quality
from unlearning.audit.language.muse import privacy_leak
from unlearning.audit.language.relearning import recovered
from unlearning.audit.scores import auc

# What the server measured by itself: figure, and which way is better.
MARKS = {
    "model_utility": Direction.HIGHER,
    "forget_truth_ratio": Direction.RETRAIN,
    "forget_rouge": Direction.RETRAIN,
    "forget_probability": Direction.RETRAIN,
    "forget_reworded_probability": Direction.RETRAIN,
    "retain_rouge": Direction.HIGHER,
    "retain_probability": Direction.HIGHER,
    "retain_truth_ratio": Direction.HIGHER,
    "real_authors_rouge": Direction.HIGHER,
    "real_authors_probability": Direction.HIGHER,
    "real_authors_truth_ratio": Direction.HIGHER,
    "world_facts_rouge": Direction.HIGHER,
    "world_facts_probability": Direction.HIGHER,
    "world_facts_truth_ratio": Direction.HIGHER,
    "extraction_strength": Direction.RETRAIN,
    "verbatim_memory": Direction.RETRAIN,
    "forget_knowledge": Direction.RETRAIN,
    "retain_knowledge": Direction.HIGHER,
    "relearned_before": Direction.RETRAIN,
    "relearned": Direction.RETRAIN,
    "rounded_8_probability": Direction.RETRAIN,
    "rounded_4_probability": Direction.RETRAIN,
    "rounded_8_knowledge": Direction.RETRAIN,
    "rounded_4_knowledge": Direction.RETRAIN,
}


def figures(outcomes: Sequence[Outcome]) -> dict[str, list[Figure]]:
    """Every figure of every model."""
    retrains = [each for each in outcomes if is_retrain(each.name)]
    known = [each.marks.get("relearned_before") for each in outcomes if each.name == ORIGINAL]
    measured = {each.name: _of(each, retrains, *known) for each in outcomes}
    return table(measured, [each.name for each in retrains])


def _of(
    outcome: Outcome, retrains: Sequence[Outcome], original: float | None = None
) -> dict[str, Measured]:
    others = [each for each in retrains if each.name != outcome.name]
    scores, marks = outcome.scores, outcome.marks
    gone, stay = of_clients(scores["forgotten"]), of_clients(scores["retained"])
    held = of_clients(scores["held"])
    return {
        "text_probability": _chance(gone),
        "text_retained_probability": _chance(stay, Direction.HIGHER),
        "text_held_probability": _chance(held),
        "text_verbatim": _share(gone),
        "text_loss": _loss(gone),
        **_membership(scores),
        "odds_to_retrain": _to_retrain(outcome, others),
        **_quality(marks, [each.marks for each in others]),
        **{n: _marked(marks, n, which) for n, which in MARKS.items() if n in marks},
        **_back(marks, original),
    }


def _back(marks: Mapping[str, Any], original: float | None) -> dict[str, Measured]:
    """The part of what a way lost, beside the original, that relearning brought back."""
    if original is None or "relearned" not in marks:
        return {}
    value = recovered(marks["relearned_before"], marks["relearned"], original)
    return {"relearned_share": Measured(value, int(marks["relearned_texts"]), note="1: all of it")}


def _chance(some: Sequence[Score], direction: Direction = Direction.RETRAIN) -> Measured:
    """The mean probability of a text, to the power of one over its tokens."""
    rows = sum(each.rows for each in some)
    value = sum(each.chance for each in some) / rows if rows else None
    return Measured(value, rows, direction=direction)


def _share(some: Sequence[Score]) -> Measured:
    rows = sum(each.rows for each in some)
    return Measured(sum(each.right for each in some) / rows if rows else None, rows)


def _loss(some: Sequence[Score]) -> Measured:
    rows = sum(each.rows for each in some)
    return Measured(sum(each.loss for each in some) / rows if rows else None, rows)


def _membership(scores: Scores) -> dict[str, Measured]:
    """D_u against texts of the same kind from which nobody learned, told apart by φ."""
    members = spread(pooled(each.odds for each in of_clients(scores["forgotten"])))
    others = spread(pooled(each.odds for each in of_clients(scores["held"])))
    n = min(len(members), len(others))
    if not n:
        return {"membership_auc": Measured(None, 0, note="no text of a side")}
    value = auc(members, others)
    interval = of_auc(value, len(members), len(others))
    return {"membership_auc": Measured(value, n, interval, least=FEW)}


def _to_retrain(outcome: Outcome, others: Sequence[Outcome]) -> Measured:
    """The mean distance of the forgotten texts' odds to the Retrains'."""
    rows = of_clients(outcome.scores["forgotten"])
    ours = pooled(each.odds for each in rows)
    theirs = [pooled(e.odds for e in of_clients(each.scores["forgotten"])) for each in others]
    known = [d for d in (apart(ours, each) for each in theirs) if d is not None]
    value = fmean(known) if known else None
    return Measured(value, sum(e.rows for e in rows), direction=Direction.LOWER)


def _quality(marks: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Measured]:
    """TOFU's forget quality and MUSE's leak, which need Retrain's; means over the Retrains."""
    found, ratios = dict[str, Measured](), marks.get("ratios", ())
    known = [each["ratios"] for each in others if each.get("ratios")]
    if ratios and known:
        ours, n = torch.tensor(ratios, dtype=torch.float64), len(ratios)
        sides = [ours, *(torch.tensor(each, dtype=torch.float64) for each in known)]
        if all(bool(torch.isfinite(each).all()) for each in sides):
            each = [forget_quality(ours, theirs) for theirs in sides[1:]]
            distance, chance = fmean(e.distance for e in each), fmean(e.log10_p for e in each)
            found["forget_distance"] = Measured(distance, n, direction=Direction.LOWER, note="KS")
            found["forget_quality"] = Measured(
                chance, n, direction=Direction.HIGHER, note="log10 p"
            )
        else:
            found["forget_distance"] = Measured(None, n, note="a truth ratio is not finite")
    leaks = [each["leak_auc"] for each in others if "leak_auc" in each]
    if "leak_auc" in marks and leaks:
        reference, n = fmean(leaks), int(marks["leak_texts"])
        value = privacy_leak(marks["leak_auc"], reference) if reference else None
        found["privacy_leak"] = Measured(value, n, note="" if reference else "Retrain's AUC is 0")
    return found


def _marked(marks: Mapping[str, Any], name: str, direction: Direction) -> Measured:
    return Measured(float(marks[name]), int(marks.get("questions", 0)), direction=direction)
