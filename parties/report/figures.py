"""Charts of a vertical report: training, iterations, methods compared with Retrain, and traffic."""

from collections.abc import Sequence

import numpy as np

from parties.report.comparison import (
    Record,
    delivered_method,
    method_title,
    nested_value,
    ordered_methods,
    retrain_reference,
)
from parties.report.plots import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    VERMILLION,
    Curve,
    CurveAxis,
    HistogramPair,
    Mark,
    MarkRow,
    MarkScale,
    Panel,
    Values,
    draw_bars,
    draw_curves,
    draw_histograms,
    draw_marks,
)
from parties.report.quantities import (
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    format_size,
)

PHASES = {"psi": "alignment (PSI)"}


def training_panels(training: Record | None) -> list[Panel]:
    """Return charts of loss and accuracy per epoch; a line marks the epoch whose model was kept."""
    epochs = nested_value(training, "epochs") or []
    axis = CurveAxis(
        "epoch", [epoch["epoch"] for epoch in epochs], nested_value(training, "best_epoch")
    )

    def pair(training: str, validation: str) -> list[Curve]:
        return [
            Curve("training", _column(epochs, training)),
            Curve("validation", _column(epochs, validation), VERMILLION, "--"),
        ]

    loss, right = pair("loss", "validation_loss"), pair("accuracy", "validation_accuracy")
    return _present(
        draw_curves("Loss", "Cross entropy.", axis, loss),
        draw_curves("Accuracy", "Share of rows predicted right.", axis, right),
    )


def iteration_panels(request: Record) -> list[Panel]:
    """Return charts of FedORA's iterations: score, dual variable, step sizes, loss, changes."""
    steps = request["iterations"] or []
    axis = CurveAxis("iteration", [step["iteration"] for step in steps])

    def line(name: str, key: str, colour: str = BLUE, dashes: str = "-") -> Curve:
        return Curve(name, _column(steps, key), colour, dashes)

    sizes = [
        line("primal τ", "primal_step"),
        line("dual σ", "dual_step", VERMILLION, "--"),
        line("bound of σ", "dual_bound", INK, ":"),
    ]
    motion = [line("gradient ‖g‖", "gradient_norm"), line("change ΔΘ", "change", VERMILLION, "--")]
    multiplier, loss = [line("dual Ω", "multiplier")], [line("loss", "retain_loss")]
    watched = [line("accuracy", "validation_accuracy")]
    return _present(
        draw_curves(
            "Forgetting score",
            "The dual Ω rises while the score is below the threshold γ.",
            axis,
            _score(request),
        ),
        draw_curves(
            "Dual Ω",
            "The multiplier of the constraint; it settles once the score reaches γ.",
            axis,
            multiplier,
        ),
        draw_curves("Step sizes", "σ must stay below its bound.", axis, sizes, log=True),
        draw_curves(
            "Loss on remaining rows", "The cost of forgetting for the remaining rows.", axis, loss
        ),
        draw_curves("Validation accuracy", "At the iterations that evaluated it.", axis, watched),
        draw_curves(
            "Gradient and change",
            "Gradient norm of the score, and change of the parameters.",
            axis,
            motion,
            log=True,
        ),
    )


def _score(request: Record) -> list[Curve]:
    """Return the forgetting score with its threshold and the score of a Retrain."""
    iterations = request["iterations"] or []
    last = nested_value(request, "threshold", "gamma")
    threshold = [step.get("threshold", last) for step in iterations]
    retrain = nested_value(request, "threshold", "retrain_score")
    return [
        Curve("score", _column(iterations, "forgetting")),
        Curve("threshold γ", threshold, INK, "--"),
        Curve("Retrain", [retrain] * len(iterations), GREEN, ":"),
    ]


def comparison_panels(request: Record) -> list[Panel]:
    """Return the charts that compare methods with Retrain: distance, attack, accuracy, effort."""
    return _present(
        _distances(request, "forgotten", "Distance to Retrain, forgotten rows"),
        _distances(request, "retained", "Distance to Retrain, remaining rows"),
        _distances(request, "test", "Distance to Retrain, test rows"),
        _attack(request),
        _accuracies(request),
        _effort(request),
    )


def _distances(request: Record, rows: str, title: str) -> Panel | None:
    shown = []
    for method in ordered_methods(request):
        ratio = nested_value(method, "divergence", rows, "ratio")
        at = [Mark(ratio, _accent(request, method))] if ratio else []
        shown.append(MarkRow(method_title(method["name"]), at, format_ratio(ratio)))
    scale = MarkScale(label="JS ratio, logarithmic", goal=1.0, start=1.0, log=True)
    return draw_marks(title, "Dashed: the distance of another Retrain.", shown, scale)


def _attack(request: Record) -> Panel | None:
    shown = []
    for method in ordered_methods(request):
        auc, interval = (
            nested_value(method, "membership", "auc"),
            nested_value(method, "membership", "interval"),
        )
        between = tuple(interval) if interval else None
        at = [] if auc is None else [Mark(auc, _accent(request, method), interval=between)]
        shown.append(MarkRow(method_title(method["name"]), at, format_number(auc, 2)))
    at_retrain = retrain_reference(request, ("membership", "auc"))
    scale = MarkScale(label="AUC, 95 % interval", goal=at_retrain.mean if at_retrain else None)
    return draw_marks("Membership attack", "Dashed: Retrain. Chance is 0.5.", shown, scale)


def _accuracies(request: Record) -> Panel | None:
    shown = []
    for method in ordered_methods(request):
        forgotten, test = (nested_value(method, "accuracy", rows) for rows in ("forgotten", "test"))
        at = [] if forgotten is None else [Mark(forgotten, BLUE, "o", "forgotten rows")]
        at += [] if test is None else [Mark(test, VERMILLION, "s", "test rows")]
        shown.append(MarkRow(method_title(method["name"]), at))
    scale = MarkScale(label="rows predicted right", show=lambda v: format_percent(v, 0))
    return draw_marks(
        "Accuracy", "A higher accuracy on forgotten than on test rows shows memory.", shown, scale
    )


def _effort(request: Record) -> Panel | None:
    kinds = (("rows", BLUE, "o"), ("bytes", VERMILLION, "s"), ("seconds", GREEN, "^"))
    shown = []
    for method in ordered_methods(request):
        costs = [(nested_value(method, "cost", f"{kind[0]}_of_retrain"), kind) for kind in kinds]
        at = [Mark(cost, colour, shape, name) for cost, (name, colour, shape) in costs if cost]
        shown.append(MarkRow(method_title(method["name"]), at))
    compared = [row for row in shown if not row.name.startswith(method_title("retrain"))]
    scale = MarkScale(
        label="share of Retrain", show=lambda v: format_percent(v, 0), goal=1.0, start=0.0
    )
    return draw_marks("Effort", "Dashed: the effort of a Retrain.", compared, scale)


def entropy_panels(request: Record) -> list[Panel]:
    """Return histograms of the prediction entropy of the original, delivered and Retrain models."""
    entropy = request["entropy"] or {}
    names = ("original", delivered_method(request), "retrain")
    sides = {name: _sides(entropy[name]) for name in names if entropy.get(name)}
    goal = sides.get("retrain")
    return [
        draw_histograms(method_title(name), _overlap(both), entropy["edges"], both, goal)
        for name, both in sides.items()
    ]


def _sides(counts: Record) -> HistogramPair:
    """Return the histograms of forgotten and of held-out rows as shares, ``[bins]`` each."""
    up, down = (np.array(counts[rows], dtype=float) for rows in ("forgotten", "heldout"))
    return up / max(1.0, up.sum()), down / max(1.0, down.sum())


def _overlap(sides: HistogramPair) -> str:
    overlap = float(np.minimum(*sides).sum())
    return f"Forgotten and held-out rows overlap by {format_percent(overlap, 0)}."


def traffic_panels(traffic: Sequence[Record] | None) -> list[Panel]:
    """Return the charts of time and of transferred bytes per phase."""

    def by_phase(key: str) -> dict[str, float]:
        known = [row for row in traffic or [] if row[key] is not None]
        return {PHASES.get(row["phase"], str(row["phase"])): row[key] for row in known}

    return _present(
        draw_bars(
            "Time by phase", "Measured at the active party.", by_phase("seconds"), format_seconds
        ),
        draw_bars("Bytes by phase", "In both directions.", by_phase("bytes"), format_size),
    )


def _accent(request: Record, method: Record) -> str:
    accents = {"original": VERMILLION, delivered_method(request): BLUE}
    return accents.get(method["name"], FAINT)


def _column(rows: Sequence[Record], key: str) -> Values:
    return [row.get(key) for row in rows]


def _present(*panels: Panel | None) -> list[Panel]:
    return [panel for panel in panels if panel is not None]
