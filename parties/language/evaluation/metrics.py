"""Metrics of the language models of a request; each model is compared with Retrain.

Notation: D_u = the forgotten texts, R = truth ratios of the benchmark's questions about D_u.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from parties.horizontal.engine.training_plan import ORIGINAL
from parties.horizontal.evaluation.metrics import MIN_ATTACK_ROWS, odds_to_retrain
from parties.horizontal.evaluation.outcome import ModelOutcome, Scores, client_scores
from parties.horizontal.local.local_task import RowMetrics
from parties.horizontal.local.score_histogram import add_histograms, histogram_scores
from parties.report.method_names import is_retrain
from unlearning.audit.intervals import auc_interval
from unlearning.audit.language.muse import privacy_leak
from unlearning.audit.language.tofu import forget_quality
from unlearning.audit.metric import Direction, Measurement, Metric, metric_table
from unlearning.audit.relearning import recovered_knowledge
from unlearning.audit.scores import auc

# Metrics of the benchmark at the server, with the direction of good values.
BENCHMARK_FIGURES = {
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
# Which tokens count: MUSE's own code generates texts, so their end is not compared.
NOTES = {
    "extraction_strength": "the end token of an answer counts",
    "verbatim_memory": "texts are compared by words; no end token counts",
    "forget_knowledge": "answers are compared by words; no end token counts",
    "retain_knowledge": "answers are compared by words; no end token counts",
}


def language_metrics(outcomes: Sequence[ModelOutcome]) -> dict[str, list[Metric]]:
    """Return all metrics of each model, by the name of the model."""
    retrains = [each for each in outcomes if is_retrain(each.name)]
    original = [
        each.benchmark_metrics.get("relearned_before") for each in outcomes if each.name == ORIGINAL
    ]
    measured = {each.name: _measurements(each, retrains, *original) for each in outcomes}
    return metric_table(measured, [each.name for each in retrains])


def _measurements(
    outcome: ModelOutcome, retrains: Sequence[ModelOutcome], original: float | None = None
) -> dict[str, Measurement]:
    others = [each for each in retrains if each.name != outcome.name]
    scores, marks = outcome.scores, outcome.benchmark_metrics
    forgotten, retained = client_scores(scores["forgotten"]), client_scores(scores["retained"])
    test = client_scores(scores["test"])
    benchmark = {
        name: _benchmark_figure(marks, name, direction)
        for name, direction in BENCHMARK_FIGURES.items()
        if name in marks
    }
    return {
        "text_probability": _per_row(forgotten, _probability),
        "text_retained_probability": _per_row(retained, _probability, Direction.HIGHER),
        "text_held_probability": _per_row(test, _probability),
        # The share of answers of which every token is the most likely one.
        "text_verbatim": _per_row(forgotten, lambda each: each.correct),
        # The mean loss per token of an answer, in nats.
        "text_loss": _per_row(forgotten, lambda each: each.loss),
        **_membership(scores),
        **({"odds_to_retrain": odds_to_retrain(outcome, others)} if retrains else {}),
        **_benchmark_against_retrain(marks, [each.benchmark_metrics for each in others]),
        **benchmark,
        **_recovered_share(marks, original),
    }


def _recovered_share(marks: Mapping[str, Any], original: float | None) -> dict[str, Measurement]:
    """The share of the lost knowledge that relearning recovers; lost against the original model."""
    if original is None or "relearned" not in marks:
        return {}
    value = recovered_knowledge(marks["relearned_before"], marks["relearned"], original)
    texts = int(marks["relearned_texts"])
    return {"relearned_share": Measurement(value, texts, note="1: all lost knowledge")}


def _per_row(
    some: Sequence[RowMetrics],
    total: Callable[[RowMetrics], float],
    direction: Direction = Direction.RETRAIN,
) -> Measurement:
    """The sum of ``total`` over the clients, divided by the number of their texts."""
    rows = sum(each.rows for each in some)
    return Measurement(sum(map(total, some)) / rows if rows else None, rows, direction=direction)


def _probability(each: RowMetrics) -> float:
    """The sum of p^(1/|y|), with p = probability of an answer and |y| = number of its tokens."""
    return each.probability


def _membership(scores: Scores) -> dict[str, Measurement]:
    """Membership inference by φ: D_u against test texts of the same kind."""
    members = histogram_scores(
        add_histograms(each.histogram for each in client_scores(scores["forgotten"]))
    )
    others = histogram_scores(
        add_histograms(each.histogram for each in client_scores(scores["test"]))
    )
    n = min(len(members), len(others))
    if not n:
        return {"membership_auc": Measurement(None, 0, note="no forgotten text, or no test text")}
    value = auc(members, others)
    interval = auc_interval(value, len(members), len(others))
    return {"membership_auc": Measurement(value, n, interval, least=MIN_ATTACK_ROWS)}


def _benchmark_against_retrain(
    marks: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> dict[str, Measurement]:
    """TOFU's forget quality and MUSE's privacy leak against Retrain; means over the Retrains."""
    found = _forget_quality(marks, others, "ratios", "")
    found |= _forget_quality(marks, others, "geometric_ratios", "geometric_")
    leaks = [each["leak_auc"] for each in others if "leak_auc" in each]
    if "leak_auc" in marks and leaks:
        reference, n = fmean(leaks), int(marks["leak_texts"])
        value = privacy_leak(marks["leak_auc"], reference) if reference else None
        found["privacy_leak"] = Measurement(
            value, n, note="" if reference else "Retrain's AUC is 0"
        )
    return found


def _forget_quality(
    marks: Mapping[str, Any], others: Sequence[Mapping[str, Any]], key: str, prefix: str
) -> dict[str, Measurement]:
    """Forget quality of the truth ratios ``key``; empty without a Retrain to compare with."""
    ratios, retrained = marks.get(key, ()), [each[key] for each in others if each.get(key)]
    if not ratios or not retrained:
        return {}
    n = len(ratios)
    ours, *theirs = (torch.tensor(each, dtype=torch.float64) for each in (ratios, *retrained))
    if not all(bool(torch.isfinite(each).all()) for each in (ours, *theirs)):
        nothing = Measurement(None, n, note="a truth ratio is not finite")
        return {f"{prefix}forget_distance": nothing}
    found = [forget_quality(ours, each) for each in theirs]
    distance, log_p = fmean(e.distance for e in found), fmean(e.log10_p for e in found)
    return {
        f"{prefix}forget_distance": Measurement(distance, n, direction=Direction.LOWER, note="KS"),
        f"{prefix}forget_quality": Measurement(
            log_p, n, direction=Direction.HIGHER, note="log10 p"
        ),
    }


def _benchmark_figure(marks: Mapping[str, Any], name: str, direction: Direction) -> Measurement:
    return Measurement(
        float(marks[name]),
        int(marks.get("questions", 0)),
        direction=direction,
        note=NOTES.get(name, ""),
    )
