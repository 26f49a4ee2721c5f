"""The figures of the audits for the delivered model, each beside Retrain; a few are headlines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from statistics import fmean, stdev

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
STATUSES = {"ok": "ok", "insufficient_n": "too few rows", "not_run": NOT_RUN}
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
    status: str
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
    others = [line for name, line in lines.items() if name not in HEADLINES]
    return AuditTable(
        label(chosen(request)),
        [lines[name] for name in HEADLINES if name in lines],
        [*others, *_of_parties(request, before), *_relearned(request)],
    )


def title(name: str) -> str:
    """Return a figure's name as people read it."""
    if name in TITLES:
        return TITLES[name]
    family, _, what = name.rpartition("_")
    return f"{_FAMILIES[family]}{_ROWS.get(what, what)}" if family in _FAMILIES else name


def _of_parties(request: Record, before: Record) -> Iterator[AuditLine]:
    """Return what each party's half knows by itself, and how far it is from the paired Retrain."""
    audits = request.get("audits") or {}
    for party, found in (audits.get("completeness") or {}).items():
        for each in found:
            line = _line(each, before.get(each["name"]))
            yield replace(line, title=f"{line.title}, with {party}’s half of the original put back")
    for party, found in (audits.get("parameters") or {}).items():
        ours, original = found["unlearned"], found["original"]
        yield AuditLine(
            title=f"distance of {party}’s parameters from the paired Retrain’s",
            value=_shown(ours),
            original=_shown(original),
            retrain=_shown(0.0),
            gap="",
            rows="1",
            status=STATUSES["ok"],
            note="even paired runs end far apart, so it need not fall",
        )


def _relearned(request: Record) -> Iterator[AuditLine]:
    """Return the steps after which the forgotten rows are known again."""
    found = (request.get("audits") or {}).get("relearn")
    if found is None:
        return
    ours, retrain = found["steps"][chosen(request)], found["steps"]["retrain-paired"]
    spread = stdev(retrain) if len(retrain) > 1 else 0.0
    yield AuditLine(
        title="steps to learn the forgotten rows again",
        value=number(fmean(ours), 1),
        original="",
        retrain=f"{number(fmean(retrain), 1)} ± {number(spread, 1)}",
        gap=signed((fmean(ours) - fmean(retrain)) / spread, 1) if spread else "",
        rows=str(len(ours)),
        status=STATUSES["ok"],
        note=f"orders of the rows, of the paired Retrain too; {found['cap']} at most",
    )


def _line(figure: Record, before: Record | None) -> AuditLine:
    spread, gap = figure["retrain_sd"], figure["gap_in_sd"]
    digits = _digits(spread)
    retrain = _shown(figure["retrain_mean"], digits)
    return AuditLine(
        title=title(figure["name"]),
        value=_shown(figure["value"], digits),
        original=_shown(before["value"], digits) if before else "",
        retrain=retrain if spread is None else f"{retrain} ± {number(spread, digits)}",
        gap="" if gap is None else signed(gap, 1),
        rows=str(figure["n"]),
        status=STATUSES[figure["status"]],
        note=figure["note"],
    )


def _digits(spread: float | None) -> int:
    """Return so many decimals that a spread is seen."""
    return min(5, max(3, 1 - floor(log10(spread)))) if spread else 3


def _shown(value: float | None, digits: int = 3) -> str:
    return NOT_RUN if value is None else number(value, digits)
