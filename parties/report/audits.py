"""Audit results of the delivered model compared with Retrain: a table, and sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from statistics import fmean, stdev

from parties.report.columns import LOSS_AUC, attack_column
from parties.report.comparison import chosen_method, find_method, method_title
from parties.report.method_names import ORIGINAL
from parties.report.quantities import (
    NOT_RUN,
    format_difference,
    format_number,
    format_percent,
    join_words,
)
from parties.report.record import Audits, Figure, JsonObject, Request

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
    "forgotten_accuracy_toward_retrain": "progress towards Retrain, accuracy",
    "forgotten_loss_toward_retrain": "progress towards Retrain, loss",
    "forgotten_entropy_toward_retrain": "progress towards Retrain, entropy",
    "forgotten_confidence_toward_retrain": "progress towards Retrain, confidence",
    "entropy_auc": "entropy of forgotten against unseen rows, AUC",
    "streisand": "Streisand check (1: forgotten rows are conspicuous)",
    "mia_balanced_accuracy": "membership attack, balanced accuracy",
    "mia_auc": "membership attack, AUC",
    "mia_distinguishability": "membership attack, distinguishability",
    "mia_tpr_at_1_fpr": "membership attack, TPR at 1 % FPR",
    "retained_mia_auc": "membership attack on remaining rows, AUC",
    "shadow_mia_balanced_accuracy": "shadow attack, balanced accuracy",
    "shadow_mia_auc": "shadow attack, AUC",
    "shadow_mia_distinguishability": "shadow attack, distinguishability",
    "shadow_mia_tpr_at_1_fpr": "shadow attack, TPR at 1 % FPR",
    "update_auc_retained": "update attack: forgotten against remaining rows, AUC",
    "update_auc_unseen": "update attack: forgotten against unseen rows, AUC",
    "ks": "largest Kolmogorov-Smirnov distance",
    "ks_p": "Kolmogorov-Smirnov test, corrected p-value",
    "energy": "energy distance, forgotten rows",
    "energy_p": "energy test on forgotten rows, p-value",
    "c2st": "classifier two-sample test, accuracy",
    "c2st_p": "classifier two-sample test, p-value",
    "backdoor_success": "backdoor, success rate",
    "backdoor_base": "backdoor, success rate without the trigger",
    "backdoor_excess": "backdoor, success rate above that without the trigger",
    "test_r2": "R², test rows",
    "test_mae": "mean absolute error, test rows",
    "test_rmse": "root mean squared error, test rows",
    "test_auc_macro": "ROC AUC, mean over the labels, test rows",
    "test_auc_micro": "ROC AUC, all labels together, test rows",
    "test_hamming_loss": "Hamming loss, test rows",
    "forgotten_mae": "mean absolute error, forgotten rows",
    "forgotten_hamming_loss": "Hamming loss, forgotten rows",
    "retained_mae": "mean absolute error, remaining rows",
    "retained_hamming_loss": "Hamming loss, remaining rows",
    "loss_auc": "forgotten against test rows, AUC of a small loss",
    "canary_auc": "canaries against unseen rows with wrong labels, AUC of the loss",
}
_FAMILIES = {
    "kl": "KL divergence, ",
    "js": "JS divergence, ",
    "tv": "total variation, ",
    "rms": "difference of predictions (RMS, in sd of the label), ",
    "agreement": "share of equal predictions, ",
    "cka": "similarity of embeddings (CKA), ",
    "view_auc": "update attack on the embeddings of ",
}
_ROWS = {"retained": "remaining rows", "forgotten": "forgotten rows", "test": "test rows"}
STATUSES = {"ok": "ok", "insufficient_n": "too few rows", "not_run": NOT_RUN}
HEADLINES = (
    "test_accuracy",
    "test_r2",
    "test_mae",
    "test_auc_macro",
    "test_hamming_loss",
    "remaining_accuracy",
    "neighbour_accuracy",
    "forgotten_loss",
    "forgotten_entropy",
    "streisand",
    "mia_auc",
    "loss_auc",
    "shadow_mia_auc",
    "js_forgotten",
    "rms_forgotten",
    "backdoor_excess",
    "canary_auc",
)
# Without Retrains, the entropy is compared with that of unseen rows only.
QUICK_HEADLINES = tuple("entropy_auc" if name == "streisand" else name for name in HEADLINES)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One table line: an audit value of the delivered model, formatted as text."""

    title: str
    value: str
    original: str
    retrain: str
    gap: str  # to the mean of Retrain, in standard deviations of Retrain
    rows: str
    status: str
    note: str


@dataclass(frozen=True, slots=True)
class AuditTable:
    """The audit values of a request: the main values, and all other values."""

    method: str
    headlines: Sequence[AuditLine]
    others: Sequence[AuditLine]


def audit_table(request: Request) -> AuditTable:
    """Return a table of the delivered model's audit values; the table is empty if no audit ran."""
    title = method_title(request)
    if request.audits is None:
        return AuditTable(title, [], [])
    original, chosen = find_method(request, ORIGINAL), chosen_method(request)
    before = {each.name: each for each in (original.figures if original else ())}
    lines = {
        each.name: _line(each, before.get(each.name)) for each in (chosen.figures if chosen else ())
    }
    headlines = HEADLINES if request.has_retrains else QUICK_HEADLINES
    others = [line for name, line in lines.items() if name not in headlines]
    return AuditTable(
        title,
        [lines[name] for name in headlines if name in lines],
        [*others, *_of_parties(request.audits, before), *_relearned(request)],
    )


def figure_title(name: str) -> str:
    """Return the title of the audit value ``name``; an unknown name is returned unchanged."""
    if name in TITLES:
        return TITLES[name]
    family, _, rows = name.rpartition("_")
    return f"{_FAMILIES[family]}{_ROWS.get(rows, rows)}" if family in _FAMILIES else name


def _of_parties(audits: Audits, before: Mapping[str, Figure]) -> Iterator[AuditLine]:
    """Return the completeness figures and the parameter distance of each party."""
    for party, figures in (audits.completeness or {}).items():
        for figure in figures:
            line = _line(figure, before.get(figure.name))
            yield replace(line, title=f"{line.title}, with {party}’s original local model")
    for party, distances in (audits.parameters or {}).items():
        yield AuditLine(
            title=f"distance of {party}’s parameters from the paired Retrain’s",
            value=_shown(distances["unlearned"]),
            original=_shown(distances["original"]),
            retrain=_shown(0.0),
            gap="",
            rows="1",
            status=STATUSES["ok"],
            note="this distance may stay large: even paired runs end far apart",
        )


def _relearned(request: Request) -> Iterator[AuditLine]:
    """Return the number of steps that relearn the forgotten rows."""
    relearn = request.audits.relearn if request.audits else None
    if relearn is None:
        return
    unlearned, retrain = relearn["steps"][request.chosen], relearn["steps"]["retrain-paired"]
    spread = stdev(retrain) if len(retrain) > 1 else 0.0
    yield AuditLine(
        title="steps to relearn the forgotten rows",
        value=format_number(fmean(unlearned), 1),
        original="",
        retrain=f"{format_number(fmean(retrain), 1)} ± {format_number(spread, 1)}",
        gap=format_difference((fmean(unlearned) - fmean(retrain)) / spread, 1) if spread else "",
        rows=str(len(unlearned)),
        status=STATUSES["ok"],
        note=f"n counts orders of the rows; steps end at {relearn['cap']}; Retrain: the paired one",
    )


def _line(figure: Figure, before: Figure | None) -> AuditLine:
    spread, gap = figure.retrain_sd, figure.gap_in_sd
    digits = _digits(spread)
    retrain = _shown(figure.retrain_mean, digits)
    return AuditLine(
        title=figure_title(figure.name),
        value=_shown(figure.value, digits),
        original=_shown(before.value, digits) if before else "",
        retrain=retrain if spread is None else f"{retrain} ± {format_number(spread, digits)}",
        gap="" if gap is None else format_difference(gap, 1),
        rows=str(figure.n),
        status=STATUSES[figure.status],
        note=figure.note,
    )


def _digits(spread: float | None) -> int:
    """Return how many decimals show a spread with two significant digits; 3 to 5."""
    return min(5, max(3, 1 - floor(log10(spread)))) if spread else 3


def _shown(value: float | None, digits: int = 3) -> str:
    return NOT_RUN if value is None else format_number(value, digits)


def audit_sentences(request: Request) -> list[str]:
    """Return the sentences about the audits of a request.

    They are about the scale of the logits, the backdoor, audits that were not run, reconstruction,
    and forgotten rows that are left after the purge.
    """
    audits = request.audits
    if audits is None:
        return []
    return [
        *_calibration(request),
        *_backdoor(audits.backdoor),
        *_not_run(request, audits),
        *_reconstruction(audits),
        *_residues(request),
    ]


def _calibration(request: Request) -> Iterator[str]:
    """Say which logits were scaled, because the scale changes confidences, losses and distances."""
    unscaled = "all other methods and of the Retrains" if request.has_retrains else "the original"
    factors = {each.title: each.details.get("calibration") for each in request.methods}
    scaled = [f"{name}’s by {factor:.3g}" for name, factor in factors.items() if factor]
    if scaled:
        yield (
            f"Calibration: these logits are multiplied as part of the method: {join_words(scaled)} "
            "(median log-odds of the predicted class on validation rows, matched to the "
            f"original’s). The logits of {unscaled} are not scaled."
        )


def _backdoor(backdoor: JsonObject | None) -> Iterator[str]:
    if backdoor is None:
        return
    success = format_percent(backdoor["original_success"])
    start = f"Backdoor: with the original the trigger succeeds on {success} of the rows"
    if backdoor["status"] == "ok":
        yield f"{start}: the audit is valid."
    else:
        yield f"{start} only: the audit is invalid."


def _not_run(request: Request, audits: Audits) -> Iterator[str]:
    if attack_column(request) is LOSS_AUC:
        yield (
            f"Completeness by party, relearning: {NOT_RUN}, because they measure predictions of "
            "one of several classes."
        )
        return
    if not audits.completeness:
        yield f"Completeness by party: {NOT_RUN}."
    if audits.relearn is None:
        yield f"Relearning: {NOT_RUN}."


def _reconstruction(audits: Audits) -> Iterator[str]:
    for party, ranks in (audits.reconstruction or {}).items():
        unlearned = format_percent(ranks["unlearned"]["rank"], 0)
        found = (
            f"Reconstruction: the change of {party}’s first layer fits {unlearned} of the other "
            "rows better than the forgotten row (50 % is chance; 0 % reveals the row)."
        )
        if "retrain" in ranks:
            found += f" With a Retrain it is {format_percent(ranks['retrain']['rank'], 0)}."
        yield found


def _residues(request: Request) -> Iterator[str]:
    residues = {party: places for party, places in request.remains.items() if places}
    for party, places in residues.items():
        yield f"After the purge {party} still has forgotten rows in: {', '.join(places)}."
    if request.remains and not residues:
        yield "After the purge no party has a forgotten row in its memory or its files."
