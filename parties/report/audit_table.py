"""The figures of the audits for the delivered model, each beside Retrain; a few are headlines."""

from collections.abc import Sequence
from dataclasses import dataclass

from parties.report.comparison import Record, chosen, label
from parties.report.quantities import NOT_RUN, number, signed

TITLES = {
    "test_accuracy": "accuracy, test rows",
    "remaining_accuracy": "accuracy, test rows of remaining classes",
    "test_balanced_accuracy": "balanced accuracy, test rows",
    "test_macro_f1": "macro F1, test rows",
    "test_auroc": "AUROC, test rows",
    "test_nll": "loss, test rows",
    "test_ece": "calibration error, test rows",
    "retained_accuracy": "accuracy, remaining rows",
    "same_class_accuracy": "accuracy, test rows of the forgotten rows’ classes",
    "neighbour_accuracy": "accuracy, nearest remaining neighbours",
    "forgotten_accuracy": "accuracy, forgotten rows",
    "forgotten_loss": "loss, forgotten rows",
    "forgotten_entropy": "entropy, forgotten rows",
    "forgotten_confidence": "confidence, forgotten rows",
    "forgotten_accuracy_toward_retrain": "way to Retrain, by accuracy",
    "forgotten_loss_toward_retrain": "way to Retrain, by loss",
    "forgotten_entropy_toward_retrain": "way to Retrain, by entropy",
    "forgotten_confidence_toward_retrain": "way to Retrain, by confidence",
    "entropy_auc": "surer on forgotten than on unseen rows, AUC",
    "streisand": "Streisand check, 1 is a scar",
    "mia_balanced_accuracy": "membership attack, balanced accuracy",
    "mia_auc": "membership attack, AUC",
    "mia_distinguishability": "membership attack, either way",
    "mia_tpr_at_1_fpr": "membership attack, found at 1 % false alarms",
    "retained_mia_auc": "membership attack on remaining rows, AUC",
    "shadow_mia_balanced_accuracy": "shadow attack, balanced accuracy",
    "shadow_mia_auc": "shadow attack, AUC",
    "shadow_mia_distinguishability": "shadow attack, either way",
    "shadow_mia_tpr_at_1_fpr": "shadow attack, found at 1 % false alarms",
    "update_auc_retained": "both versions: forgotten against remaining rows, AUC",
    "update_auc_unseen": "both versions: forgotten against unseen rows, AUC",
    "ks": "largest Kolmogorov-Smirnov distance",
    "ks_p": "Kolmogorov-Smirnov test, corrected p-value",
    "energy": "energy distance, forgotten rows",
    "energy_p": "energy test on forgotten rows, p-value",
    "c2st": "classifier that tells it from a Retrain",
    "c2st_p": "the same, p-value",
    "backdoor_success": "backdoor, success",
    "backdoor_base": "backdoor, the same without the trigger",
    "backdoor_excess": "backdoor, excess",
}
_FAMILIES = {
    "kl": "KL divergence, ",
    "js": "JS divergence, ",
    "tv": "total variation, ",
    "agreement": "same class predicted, ",
    "cka": "likeness of embeddings (CKA), ",
    "view_auc": "both halves, seen by ",
}
_ROWS = {"retained": "remaining rows", "forgotten": "forgotten rows", "test": "test rows"}
HEADLINES = (
    "test_accuracy",
    "remaining_accuracy",
    "neighbour_accuracy",
    "forgotten_loss",
    "forgotten_entropy",
    "streisand",
    "mia_auc",
    "shadow_mia_auc",
    "js_forgotten",
    "energy_p",
    "backdoor_excess",
)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One figure of the delivered model, as texts."""

    title: str
    value: str
    original: str
    retrain: str
    gap: str  # in standard deviations of Retrain
    rows: str
    note: str


@dataclass(frozen=True, slots=True)
class AuditTable:
    """What is seen at once, and what is folded away."""

    method: str
    headlines: Sequence[AuditLine]
    others: Sequence[AuditLine]


def audit_table(request: Record) -> AuditTable:
    """Return the figures of the delivered model; empty where none were measured."""
    figures = request.get("figures") or {}
    before = {each["name"]: each for each in figures.get("original", ())}
    lines = {
        each["name"]: _line(each, before.get(each["name"]))
        for each in figures.get(chosen(request), ())
    }
    return AuditTable(
        label(chosen(request)),
        [lines[name] for name in HEADLINES if name in lines],
        [line for name, line in lines.items() if name not in HEADLINES],
    )


def title(name: str) -> str:
    """Return a figure's name as people read it."""
    if name in TITLES:
        return TITLES[name]
    family, _, what = name.rpartition("_")
    return f"{_FAMILIES[family]}{_ROWS.get(what, what)}" if family in _FAMILIES else name


def _line(figure: Record, before: Record | None) -> AuditLine:
    spread, gap = figure["retrain_sd"], figure["gap_in_sd"]
    retrain = _shown(figure["retrain_mean"])
    return AuditLine(
        title=title(figure["name"]),
        value=_shown(figure["value"]),
        original=_shown(before["value"]) if before else "",
        retrain=retrain if spread is None else f"{retrain} ± {number(spread, 3)}",
        gap="" if gap is None else signed(gap, 1),
        rows=str(figure["n"]),
        note=figure["note"] or ("too few rows" if figure["status"] == "insufficient_n" else ""),
    )


def _shown(value: float | None) -> str:
    return NOT_RUN if value is None else number(value, 3)
