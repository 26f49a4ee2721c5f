"""Labels of methods and columns in the report, and access to the metrics of a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from parties.report.method_names import is_retrain
from parties.report.quantities import (
    NARROW,
    format_difference,
    format_number,
    format_percent,
    join_words,
)

Record: TypeAlias = Mapping[str, Any]  # a part of metrics.json

METHODS = {
    "original": ("Original", "the trained model, before unlearning"),
    "fedosd": ("FedOSD", "steepest direction that conflicts with no remaining client"),
    "fedforget": ("FedForget", "two teachers, with a decaying weight in the mean"),
    "fine-tune": ("Fine-tune", "the remaining clients train on"),
    "federaser": ("FedEraser", "stored rounds, calibrated without the client"),
    "fedrecovery": ("FedRecovery", "the client’s part of stored rounds subtracted, with noise"),
    "mode": ("MoDe", "a degraded model mixed in, then guidance"),
    "ewc-sga": ("EWC-SGA", "gradient ascent with an elastic penalty"),
    "fu-pga": ("FU-PGA", "gradient ascent within a ball"),
    "sfu": ("SFU", "gradient ascent outside the other clients’ inputs"),
    "adaclipping-like": ("AdaClipping-like", "parameters dampened that the client needs most"),
    "mimir": ("Mimir", "data-free distillation with prompts"),
    "fedmm": ("FedMM", "error-maximising, then error-minimising noise"),
    "fedgkt": ("FedGKT", "data-free distillation with a gate"),
    "knot": ("Knot", "the client’s cluster trains again from a snapshot"),
    "grad-ascent": ("GradAscent", "gradient ascent on forgotten texts"),
    "grad-diff": ("GradDiff", "ascent on forgotten texts, descent on retained ones"),
    "npo": ("NPO", "forgotten answers as rejected preferences"),
    "simnpo": ("SimNPO", "NPO by length, without a reference model"),
    "rmu": ("RMU", "activations of forgotten texts steered away"),
    "primal-dual": ("Primal-dual", "forgotten answers kept at the loss of unseen ones"),
    "retrain": ("Retrain", "trained from scratch without the forgotten rows"),
}


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A column of the table: one metric of every model.

    Attributes:
        group: heading of the column's group.
        title: heading of the column.
        metric: name of the metric.
        short: heading on the terminal; if empty, the terminal does not show the column.
        share: whether the metric is a fraction, which is shown as a percentage.
        digits: number of decimals of a metric that is not a fraction.
        forgets: whether the metric measures forgetting. Such a metric proves nothing if the
            original model already has the value of the Retrain models.
    """

    group: str
    title: str
    metric: str
    short: str = ""
    share: bool = True
    digits: int = 2
    forgets: bool = False

    def text(self, value: float | None) -> str:
        """Return a value as text for the report."""
        return format_percent(value) if self.share else format_number(value, self.digits)

    def gap(self, metric: Record) -> str:
        """Return the gap to the mean of the Retrain models as text; empty if the gap is unknown."""
        if metric["gap"] is None:
            return ""
        scale, unit, digits = (100, "pts", 1) if self.share else (1, "", self.digits)
        sd = metric["gap_in_sd"]
        in_sd = "" if sd is None else f", {format_difference(sd, 1)}{NARROW}sd"
        gap = format_difference(scale * metric["gap"], digits)
        return f"{gap}{NARROW * bool(unit)}{unit}{in_sd}"


FORGETS, STAYS, STAGES = "Forgotten rows", "Remaining clients", "Stages and attacks"
COLUMNS = (
    MetricColumn(
        FORGETS, "trigger rate, leaving client’s rows", "planted", "trigger\nown", forgets=True
    ),
    MetricColumn(
        FORGETS, "trigger rate, all test rows", "stamped", "trigger\nothers", forgets=True
    ),
    MetricColumn(
        FORGETS, "accuracy on forgotten rows", "forgotten_accuracy", "acc.\nforgot.", forgets=True
    ),
    MetricColumn(
        FORGETS, "the same, whole model of a remaining client", "by_client_forgotten", forgets=True
    ),
    MetricColumn(
        FORGETS, "probability of forgotten texts", "text_probability", "p\nforgot.", forgets=True
    ),
    MetricColumn(FORGETS, "forgotten texts reproduced verbatim", "text_verbatim", forgets=True),
    MetricColumn(
        FORGETS, "truth ratio (FTR)", "forget_truth_ratio", "FTR", share=False, forgets=True
    ),
    MetricColumn(FORGETS, "KS to Retrain", "forget_distance", "KS", share=False, forgets=True),
    MetricColumn(FORGETS, "forget quality, log10 p", "forget_quality", share=False, digits=1),
    MetricColumn(FORGETS, "ROUGE-L of forgotten answers", "forget_rouge", forgets=True),
    MetricColumn(
        FORGETS, "probability, paraphrased questions", "forget_reworded_probability", forgets=True
    ),
    MetricColumn(FORGETS, "extraction strength", "extraction_strength", forgets=True),
    MetricColumn(FORGETS, "verbatim memorisation", "verbatim_memory", forgets=True),
    MetricColumn(FORGETS, "knowledge of forgotten texts", "forget_knowledge", forgets=True),
    MetricColumn(FORGETS, "PrivLeak", "privacy_leak", share=False, digits=1),
    MetricColumn(FORGETS, "membership AUC", "membership_auc", "AUC", share=False, forgets=True),
    MetricColumn(
        FORGETS, "distance to Retrain", "odds_to_retrain", "dist.", share=False, forgets=True
    ),
    MetricColumn(STAYS, "test accuracy", "client_accuracy", "test\nacc."),
    MetricColumn(STAYS, "test accuracy, worst client", "worst_client", "acc.\nworst"),
    MetricColumn(STAYS, "training rows, whole model of that client", "by_client_retained"),
    MetricColumn(STAYS, "model utility", "model_utility", "utility", share=False, digits=3),
    MetricColumn(STAYS, "probability of retained texts", "text_retained_probability", "p\nretain"),
    MetricColumn(STAYS, "ROUGE-L of retained answers", "retain_rouge"),
    MetricColumn(STAYS, "ROUGE-L, real authors", "real_authors_rouge"),
    MetricColumn(STAYS, "ROUGE-L, world facts", "world_facts_rouge"),
    MetricColumn(STAYS, "knowledge of retained texts", "retain_knowledge"),
    MetricColumn(STAGES, "8-bit quantisation, probability", "rounded_8_probability"),
    MetricColumn(STAGES, "4-bit quantisation, probability", "rounded_4_probability"),
    MetricColumn(STAGES, "8-bit quantisation, knowledge", "rounded_8_knowledge"),
    MetricColumn(STAGES, "4-bit quantisation, knowledge", "rounded_4_knowledge"),
    MetricColumn(STAGES, "before relearning, probability", "relearned_before"),
    MetricColumn(STAGES, "after relearning, probability", "relearned"),
    MetricColumn(STAGES, "relearned share of the lost probability", "relearned_share"),
    MetricColumn(STAGES, "trigger rate before recovery", "unlearned_planted"),
    MetricColumn(STAGES, "test accuracy before recovery", "unlearned_client_accuracy"),
    MetricColumn(STAGES, "trigger rate after the reverting test", "reverted_planted"),
    MetricColumn(STAGES, "forgotten rows, after the reverting test", "reverted_forgotten_accuracy"),
    MetricColumn(STAGES, "clients with conflicting gradients", "conflicts", share=False),
    MetricColumn(STAGES, "skipped rounds", "skipped_rounds", share=False, digits=0),
)


def method_label(name: str) -> str:
    """Return the display name of a method."""
    if is_retrain(name) and name != "retrain":
        return f"Retrain, {name.partition('-')[2]}"
    return METHODS.get(name, (name, ""))[0]


def method_description(name: str) -> str:
    """Return a short description of a method."""
    if is_retrain(name) and name != "retrain":
        return "trained from scratch with another seed"
    return METHODS.get(name, ("", "the same method with other settings"))[1]


def leaving_summary(request: Record) -> str:
    """Return a text that names the clients whose rows are forgotten."""
    leaving = sorted({each.partition(",")[0] for each in request["leaving"]})
    if not leaving:
        return "no client had such rows"
    if len(leaving) > 3:
        return f"rows of {len(leaving)} clients are forgotten"
    return f"rows of {join_words(leaving)} are forgotten"


def find_metric(method: Record, name: str) -> Record | None:
    """Return a metric of a model; None if the metric was not measured."""
    return next((each for each in method["figures"] if each["name"] == name), None)


def divergence(method: Record) -> str:
    """Return in which round and with which error a method diverged; empty if it did not diverge."""
    return method.get("diverged") or ""


def metric_value(method: Record, name: str) -> float | None:
    """Return the value of a model's metric; None if the metric was not measured."""
    found = find_metric(method, name)
    return None if found is None else found["value"]


def find_method(request: Record, name: str) -> Record:
    """Return the record of a method in a request."""
    found: Record = next(each for each in request["methods"] if each["name"] == name)
    return found


def visible_columns(request: Record) -> Sequence[MetricColumn]:
    """Return the columns in which at least one model has a value."""
    methods = request["methods"]
    return [
        column
        for column in COLUMNS
        if any(metric_value(each, column.metric) is not None for each in methods)
    ]


def original_differs(request: Record, column: MetricColumn) -> bool | None:
    """Return whether a metric of the original model is far from the mean of the Retrain models.

    Far means: by more than two standard deviations over the Retrain models.

    The result is None if the metric was not measured, or if there are fewer than two Retrain
    models.
    """
    found = find_metric(find_method(request, "original"), column.metric)
    if found is None or found["gap"] is None or found["retrain_sd"] is None:
        return None
    return bool(abs(found["gap"]) > 2 * found["retrain_sd"])
