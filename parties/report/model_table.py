"""Figures of the trained model on test rows: table, sentences and the line of the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_seconds,
    join_words,
)
from parties.report.record import AloneFigures, Confusion, GainFigure, ModelFigures

MOST_CLASSES: Final = 20  # of a confusion matrix on the page


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One line of the table of the model's figures."""

    title: str  # name of the figure
    value: str  # the figure, or a dash
    meaning: str  # what it is; without a value, why there is none


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str  # field of ``ModelFigures``
    title: str
    meaning: str
    text: Callable[[float], str]
    short: str = ""  # name on the terminal; empty: not shown there


def _three(value: float) -> str:
    return format_number(value, 3)


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
        "the most probable class is the true one",
        format_percent,
        "accuracy",
    ),
    _Figure(
        "majority_accuracy",
        "Accuracy of the majority class",
        "always “{majority}”, the most frequent class of the training rows",
        format_percent,
        "majority class",
    ),
)


def model_lines(model: ModelFigures) -> list[FigureLine]:
    """Return the lines of the table; a figure that does not exist for several classes is absent."""
    words = _words(model)
    lines = []
    for each in _FIGURES:
        value, reason = getattr(model, each.name), model.absent.get(each.name)
        if value is not None:
            lines.append(FigureLine(each.title, each.text(value), each.meaning.format(**words)))
        elif reason is None or len(_classes(model)) < 3 or each.name not in ("ks", "gini"):
            lines.append(FigureLine(each.title, "–", f"not defined: {reason or 'not measured'}"))
    return lines


def figure_texts() -> list[tuple[str, str, Callable[[float], str]]]:
    """Return field, title and format of every figure of a model."""
    return [(each.name, each.title, each.text) for each in _FIGURES]


def _words(model: ModelFigures) -> dict[str, str]:
    """Return the parts of the meanings that depend on the classes."""
    classes = _classes(model)
    if len(classes) == 2:
        auc = (
            f"probability that a row of “{classes[1]}” gets a higher score than a row of "
            f"“{classes[0]}”; 0.5 is chance"
        )
        return {
            "auc": auc,
            "mean": f" of “{classes[1]}”",
            "brier": f"y of “{classes[1]}”",
            "majority": model.majority_class,
        }
    return {
        "auc": "mean over the classes, each against all others; 0.5 is chance",
        "mean": ", mean over the classes",
        "brier": "ies, summed over the classes",
        "majority": model.majority_class,
    }


def _classes(model: ModelFigures) -> Sequence[str]:
    return model.confusion.classes if model.confusion else ()


def model_sentence(model: ModelFigures) -> str:
    """Return the main figures of the model in plain words."""
    rows = f"On {format_count(model.rows)} test rows"
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


def _reason(model: ModelFigures, name: str) -> str:
    return model.absent.get(name, "it was not measured")


def model_summary(model: ModelFigures) -> str:
    """Return the figures in one line for the terminal, the AUC first."""
    found = [
        f"{each.short} {each.text(value)}"
        for each in _FIGURES
        if each.short and (value := getattr(model, each.name)) is not None
    ]
    missing = "" if model.auc is not None else f" (no AUC: {_reason(model, 'auc')})"
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


def alone_sentence(alone: AloneFigures) -> str:
    """Return what the active party reaches without the others, and what joining brings."""
    if alone.absent is not None:
        return f"There is no model of {alone.party}’s columns alone: {alone.absent}."
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


def _gain(name: str, gain: GainFigure | None, scale: int) -> str:
    if gain is None or gain.value is None:
        return ""
    digits = 3 if scale == 1 else 1
    value, *ends = (
        format_difference(scale * each, digits) for each in (gain.value, *(gain.ci95 or ()))
    )
    interval = f" (95{NARROW}% interval {ends[0]} to {ends[1]})" if ends else ""
    return f"{value} {name}{interval}"
