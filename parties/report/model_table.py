"""Figures of the trained model on test rows: table, sentences and the line of the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from configs.targets import Task
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_seconds,
    join_words,
)
from parties.report.record import (
    AloneFigures,
    Confusion,
    GainFigure,
    Importance,
    ImportanceFigure,
    ImportanceLine,
    ModelFigures,
)

MOST_CLASSES: Final = 20  # of a confusion matrix on the page


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One line of the table of the model's figures."""

    title: str  # name of the figure
    value: str  # the figure, or a dash
    meaning: str  # what it is; without a value, why there is none


IMPORTANCE_TITLES: Final = {
    "auc": "AUC",
    "accuracy": "accuracy in points",
    "r2": "R²",
    "auc_macro": "AUC, mean over labels",
}
MOST_LINES: Final = 40  # columns of the active party in the table of importances


@dataclass(frozen=True, slots=True)
class ImportanceRow:
    """One row of the table of importances."""

    title: str  # name of the party, or of a column
    column: bool  # whether it is a column of the active party
    drops: tuple[str, ...]  # the fall of each figure, with its spread, in the order of the titles


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str  # field of ``ModelFigures``
    title: str
    meaning: str
    text: Callable[[float], str]
    short: str = ""  # name on the terminal; empty: not shown there
    tasks: tuple[Task, ...] = ("classification",)  # tasks whose models have the figure


def _three(value: float) -> str:
    return format_number(value, 3)


def _measured(value: float) -> str:
    """Return a value in the unit of the data with four significant digits."""
    return f"{value:.4g}"


_NUMBER: Final[tuple[Task, ...]] = ("regression",)
_LABELS: Final[tuple[Task, ...]] = ("multilabel",)
_FIGURES: Final = (
    _Figure("auc", "ROC AUC", "{auc}", _three, "AUC"),
    _Figure("gini", "Gini", "2 · AUC − 1", _three, "Gini"),
    _Figure(
        "ks",
        "KS",
        "largest distance between the score distributions of the two classes",
        _three,
        "KS",
    ),
    _Figure(
        "average_precision",
        "Average precision",
        "area under precision and recall{mean}; a model that knows nothing reaches the share of "
        "the class",
        _three,
        "average precision",
    ),
    _Figure(
        "log_loss",
        "Log loss",
        "mean −log of the probability of the true class",
        _three,
        "log loss",
    ),
    _Figure(
        "brier",
        "Brier score",
        "mean squared error of the probabilit{brier}; 0 is perfect",
        _three,
    ),
    _Figure(
        "calibration_error",
        "Calibration error (ECE)",
        "mean distance of confidence from accuracy, in 15 bins of equal width over the probability "
        "of the predicted class",
        _three,
    ),
    _Figure(
        "accuracy",
        "Accuracy",
        "{accuracy}",
        format_percent,
        "accuracy",
        ("classification", "multilabel"),
    ),
    _Figure(
        "majority_accuracy",
        "Accuracy of the majority class",
        "always “{majority}”, the most frequent class of the training rows",
        format_percent,
        "majority class",
    ),
    _Figure(
        "r2",
        "R²",
        "share of the variance of the test rows that the model explains; always answering their "
        "mean reaches 0",
        _three,
        "R²",
        _NUMBER,
    ),
    _Figure("mae", "Mean absolute error", "in the unit of the label", _measured, "MAE", _NUMBER),
    _Figure(
        "rmse",
        "Root mean squared error",
        "in the unit of the label; large errors count more",
        _measured,
        "RMSE",
        _NUMBER,
    ),
    _Figure(
        "mean_mae",
        "Mean absolute error of the mean",
        "always {mean}, the mean of the training rows",
        _measured,
        "MAE of the mean",
        _NUMBER,
    ),
    _Figure(
        "mean_rmse",
        "Root mean squared error of the mean",
        "always {mean}, the mean of the training rows",
        _measured,
        "",
        _NUMBER,
    ),
    _Figure(
        "auc_macro",
        "ROC AUC, mean over the labels",
        "each label by itself; 0.5 is chance{labels}",
        _three,
        "AUC (macro)",
        _LABELS,
    ),
    _Figure(
        "auc_micro",
        "ROC AUC, all labels together",
        "over all pairs of a row and a label; 0.5 is chance",
        _three,
        "AUC (micro)",
        _LABELS,
    ),
    _Figure(
        "hamming_loss",
        "Hamming loss",
        "share of the pairs of a row and a label that the model gets wrong",
        format_percent,
        "Hamming loss",
        _LABELS,
    ),
)


def model_lines(model: ModelFigures) -> list[FigureLine]:
    """Return the lines of the table; a figure that does not exist for several classes is absent."""
    words = _words(model)
    lines = []
    for each in _of_task(model):
        value, reason = getattr(model, each.name), model.absent.get(each.name)
        if value is not None:
            lines.append(FigureLine(each.title, each.text(value), each.meaning.format(**words)))
        elif reason is None or len(_classes(model)) < 3 or each.name not in ("ks", "gini"):
            lines.append(FigureLine(each.title, "–", f"not defined: {reason or 'not measured'}"))
    return lines


def figure_texts() -> list[tuple[str, str, Callable[[float], str]]]:
    """Return field, title and format of every figure of a model."""
    return [(each.name, each.title, each.text) for each in _FIGURES]


def _of_task(model: ModelFigures) -> list[_Figure]:
    return [each for each in _FIGURES if model.task in each.tasks]


def _words(model: ModelFigures) -> dict[str, str]:
    """Return the parts of the meanings that depend on the labels."""
    if model.task == "multilabel":
        areas = join_words([f"{name} {_three(area)}" for name, area in model.label_auc.items()])
        return {"accuracy": "all labels of a row are right", "labels": f": {areas}" * bool(areas)}
    if model.task == "regression":
        return {"mean": "–" if model.mean is None else _measured(model.mean)}
    return {"accuracy": "the most probable class is the true one"} | _words_of_classes(model)


def _words_of_classes(model: ModelFigures) -> dict[str, str]:
    """Return the parts of the meanings that depend on the classes."""
    classes, majority = _classes(model), model.majority_class or ""
    if len(classes) == 2:
        auc = (
            f"probability that a row of “{classes[1]}” gets a higher score than a row of "
            f"“{classes[0]}”; 0.5 is chance"
        )
        return {
            "auc": auc,
            "mean": f" of “{classes[1]}”",
            "brier": f"y of “{classes[1]}”",
            "majority": majority,
        }
    return {
        "auc": "mean over the classes, each against all others; 0.5 is chance",
        "mean": ", mean over the classes",
        "brier": "ies, summed over the classes",
        "majority": majority,
    }


def _classes(model: ModelFigures) -> Sequence[str]:
    return model.confusion.classes if model.confusion else ()


def model_sentence(model: ModelFigures) -> str:
    """Return the main figures of the model in plain words."""
    rows = f"On {format_count(model.rows)} test rows"
    if model.task != "classification":
        return f"{rows} {_other_sentence(model)}"
    if model.accuracy is None or model.majority_accuracy is None:
        return f"{rows} no figure of the model is defined: {_reason(model, 'accuracy')}."
    compared = (
        f"{rows} the model names the right class in {format_percent(model.accuracy)} of all cases; "
        f"always answering “{model.majority_class}” would reach "
        f"{format_percent(model.majority_accuracy)}."
    )
    if model.auc is None:
        return f"{compared} There is no AUC: {_reason(model, 'auc')}."
    classes = _classes(model)
    if len(classes) == 2:
        return (
            f"{compared} Of a row of “{classes[1]}” and a row of “{classes[0]}”, it gives the "
            f"first the higher score in {format_percent(model.auc)} of all pairs (AUC "
            f"{format_number(model.auc, 3)})."
        )
    return f"{compared} Its AUC, each class against all others, is {format_number(model.auc, 3)}."


def _other_sentence(model: ModelFigures) -> str:
    """Return the main figures of a model of a number or of several labels, after the rows."""
    if model.task == "regression":
        if model.mae is None or model.mean_mae is None:
            return f"no figure of the model is defined: {_reason(model, 'mae')}."
        explained = f"R² is {_three(model.r2)}" if model.r2 is not None else "there is no R²"
        return (
            f"the model is wrong by {_measured(model.mae)} on average; always answering the mean "
            f"of the training rows would be wrong by {_measured(model.mean_mae)}. Here "
            f"{explained}."
        )
    if model.hamming_loss is None:
        return f"no figure of the model is defined: {_reason(model, 'hamming_loss')}."
    area = f"is {_three(model.auc_macro)}" if model.auc_macro is not None else "is not defined"
    return (
        f"the model gets {format_percent(model.hamming_loss)} of the labels wrong, and all labels "
        f"of a row right in {format_percent(model.accuracy)} of the rows. Its AUC, the mean over "
        f"the labels, {area}."
    )


def _reason(model: ModelFigures, name: str) -> str:
    return model.absent.get(name, "it was not measured")


def model_summary(model: ModelFigures) -> str:
    """Return the figures in one line for the terminal, the AUC first."""
    found = [
        f"{each.short} {each.text(value)}"
        for each in _of_task(model)
        if each.short and (value := getattr(model, each.name)) is not None
    ]
    known = model.auc is not None or model.task != "classification"
    missing = "" if known else f" (no AUC: {_reason(model, 'auc')})"
    return f"Model on {format_count(model.rows)} test rows: {', '.join(found) or 'none'}{missing}."


def confusion_caption(confusion: Confusion) -> str:
    """Return how the classes of the confusion matrix were predicted."""
    if confusion.threshold is None:
        return "Test rows by true class (lines) and most probable class (columns)."
    threshold = format_number(confusion.threshold, 3)
    return (
        "Test rows by true class (lines) and predicted class (columns): "
        f"“{confusion.classes[1]}” from a probability of {threshold}, which maximises Youden’s J "
        "(true positive rate minus false positive rate) on the validation rows."
    )


def importance_sentence(importance: Importance, rows: int) -> str:
    """Return what the table of importances shows, for a model with ``rows`` test rows."""
    count = importance.permutations
    spread = "" if count == 1 else " ± the standard deviation over the permutations"
    text = (
        f"How much the figures on {format_count(rows)} test rows fall if all columns of a party "
        f"are permuted together over these rows: mean of {count} "
        f"permutation{'s' if count > 1 else ''}{spread}. A fall near 0 means that the model hardly "
        "uses them, or that other columns say the same. No message was sent: the embeddings of the "
        "test rows were permuted."
    )
    if importance.columns_absent is not None:
        text += f" The active party’s columns are not listed: {importance.columns_absent}."
    return text


def importance_rows(importance: Importance) -> list[ImportanceRow]:
    """Return the parties, then the most important columns of the active party."""
    parties = [each for each in importance.lines if each.column is None]
    columns = [each for each in importance.lines if each.column is not None]
    chosen = [*_by_fall(parties), *_by_fall(columns)[:MOST_LINES]]
    return [
        ImportanceRow(
            title=each.column or each.party,
            column=each.column is not None,
            drops=tuple(_fall(name, each.drops[name]) for name in importance.figures),
        )
        for each in chosen
    ]


def _by_fall(lines: Sequence[ImportanceLine]) -> list[ImportanceLine]:
    """Return the lines with the largest fall of the first figure first."""
    return sorted(lines, key=lambda each: -next((d.mean for d in each.drops.values()), 0.0))


def _fall(name: str, drop: ImportanceFigure) -> str:
    scale, digits = (100, 1) if name == "accuracy" else (1, 3)
    spread = "" if drop.sd is None else f" ± {format_number(scale * drop.sd, digits)}"
    return f"{format_difference(scale * drop.mean, digits)}{spread}"


def alone_sentence(alone: AloneFigures) -> str:
    """Return what the active party reaches without the others, and what joining brings."""
    if alone.absent is not None:
        return f"There is no model of {alone.party}’s columns alone: {alone.absent}."
    if alone.mae is not None:
        return _alone_with_number(alone, alone.mae)
    auc = "no AUC" if alone.auc is None else f"an AUC of {format_number(alone.auc, 3)}"
    accuracy = f"an accuracy of {format_percent(alone.accuracy)}"
    brings = join_words(
        [
            text
            for name, gain, scale in (
                ("AUC", alone.gain_auc, 1),
                ("accuracy in points", alone.gain_accuracy, 100),
            )
            if (text := _gain(name, gain, scale))
        ]
    )
    if not alone.columns:
        return (
            f"{alone.party} has no columns: alone it can only answer with the most frequent class, "
            f"with {auc} and {accuracy}. Joining brings {brings}."
        )
    return (
        f"With its columns alone, {alone.party} reaches {auc} and {accuracy} (its own training, "
        f"{format_seconds(alone.seconds)}, no message). Joining brings {brings}."
    )


def _alone_with_number(alone: AloneFigures, mae: float) -> str:
    """Return the same for a model of a number, whose mean absolute error is ``mae``."""
    explained = "no R²" if alone.r2 is None else f"an R² of {_three(alone.r2)}"
    figures = f"{explained} and a mean absolute error of {_measured(mae)}"
    brings = _gain("R²", alone.gain_r2, 1)
    lower = "" if alone.gain_mae is None else _error_change(alone.gain_mae)
    joining = f"Joining brings {join_words([each for each in (brings, lower) if each])}."
    if not alone.columns:
        return (
            f"{alone.party} has no columns: alone it can only answer with the mean of the training "
            f"rows, with {figures}. {joining}"
        )
    return (
        f"With its columns alone, {alone.party} reaches {figures} (its own training, "
        f"{format_seconds(alone.seconds)}, no message). {joining}"
    )


def _error_change(gain: GainFigure) -> str:
    """Return by how much joining changes the mean absolute error."""
    if gain.value is None:
        return ""
    value, *ends = (f"{-each:+.4g}".replace("-", "−") for each in (gain.value, *(gain.ci95 or ())))
    interval = f" (95{NARROW}% interval {ends[1]} to {ends[0]})" if ends else ""
    return f"{value} in the mean absolute error{interval}"


def _gain(name: str, gain: GainFigure | None, scale: int) -> str:
    if gain is None or gain.value is None:
        return ""
    digits = 3 if scale == 1 else 1
    value, *ends = (
        format_difference(scale * each, digits) for each in (gain.value, *(gain.ci95 or ()))
    )
    interval = f" (95{NARROW}% interval {ends[0]} to {ends[1]})" if ends else ""
    return f"{value} {name}{interval}"
