"""Charts of the report: training, steps of a method, methods compared with Retrain, and traffic."""

from collections.abc import Callable, Sequence

import numpy as np

from configs.targets import Task
from parties.report.charts.plots import (
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
    draw_bars,
    draw_curves,
    draw_histograms,
    draw_marks,
)
from parties.report.columns import (
    LOSS_AUC,
    TEST_ACCURACY,
    Column,
    Unit,
    attack_column,
    error_columns,
    is_vertical,
    membership_interval,
    ratio_column,
)
from parties.report.comparison import (
    chosen_method,
    method_title,
    ordered_methods,
    retrain_reference,
)
from parties.report.method_names import ORIGINAL, RETRAIN, is_retrain
from parties.report.quantities import (
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    format_size,
)
from parties.report.record import JsonObject, MethodRecord, PhaseTraffic, Request, Step, Training

PHASES = {"psi": "alignment (PSI)"}


_LOSSES: dict[Task, str] = {
    "classification": "Cross entropy.",
    "regression": "Squared or absolute error of the standardised number.",
    "multilabel": "Binary cross entropy, mean over the labels.",
}


def training_panels(training: Training | None, task: Task = "classification") -> list[Panel]:
    """Return charts of loss and accuracy; a line marks the step whose model was kept.

    ``task`` says what the model predicts, and so which loss it has.
    """
    if training is None:
        return []
    steps = training.steps
    axis = CurveAxis(training.unit, [each.number for each in steps], training.kept)

    def pair(name: str) -> list[Curve]:
        return [
            Curve("training", _values(steps, name)),
            Curve("validation", _values(steps, f"validation_{name}"), VERMILLION, "--"),
        ]

    caption = _LOSSES[task]
    if training.unit == "round":
        caption = "Mean over the clients of the round, weighted by rows."
    return _present(
        draw_curves("Loss", caption, axis, pair("loss")),
        draw_curves("Accuracy", "Share of rows predicted right.", axis, pair("accuracy")),
    )


def step_panels(request: Request) -> list[Panel]:
    """Return charts of the chosen method's rounds or iterations: constraint, steps, losses."""
    method = chosen_method(request)
    steps = method.steps if method else ()
    staged = any(each.stage is not None for each in steps)
    numbers = range(1, len(steps) + 1) if staged else [each.number for each in steps]
    axis = CurveAxis("round" if staged else "iteration", [*numbers])
    return [
        *_constraint_panels(request, steps, axis),
        *(_round_panels(steps, axis) if staged else _iteration_panels(steps, axis)),
    ]


def _constraint_panels(request: Request, steps: Sequence[Step], axis: CurveAxis) -> list[Panel]:
    """Return charts of the forgetting score with its threshold, and of the dual variable."""
    known = request.threshold
    last = known.gamma if known else None
    threshold = [last if each.threshold is None else each.threshold for each in steps]
    retrain = known.scores.get(RETRAIN) if known else None
    curves = [
        Curve("score", _values(steps, "score")),
        Curve("threshold γ", threshold, INK, "--"),
        Curve("Retrain", [retrain] * len(steps), GREEN, ":"),
    ]
    score = "The dual Ω rises while the score is below the threshold γ."
    if not is_vertical(request):
        score = f"Loss per token of forgotten texts in nats. {score}"
    dual = "The multiplier of the constraint; it settles once the score reaches γ."
    return _present(
        draw_curves("Forgetting score", score, axis, curves),
        draw_curves("Dual Ω", dual, axis, [Curve("dual Ω", _values(steps, "multiplier"))]),
    )


def _iteration_panels(steps: Sequence[Step], axis: CurveAxis) -> list[Panel]:
    """Return charts of a method without stages: step sizes, loss, accuracy and changes."""

    def line(name: str, key: str, colour: str = BLUE, dashes: str = "-") -> Curve:
        return Curve(name, _values(steps, key), colour, dashes)

    sizes = [
        line("primal τ", "primal_step"),
        line("dual σ", "dual_step", VERMILLION, "--"),
        line("bound of σ", "dual_bound", INK, ":"),
    ]
    motion = [line("gradient ‖g‖", "gradient_norm"), line("change ΔΘ", "change", VERMILLION, "--")]
    loss, watched = [line("loss", "loss")], [line("accuracy", "validation_accuracy")]
    cost = "The cost of forgetting for the remaining rows."
    moved = "Gradient norm of the score, and change of the parameters."
    return _present(
        draw_curves("Step sizes", "σ must stay below its bound.", axis, sizes, log=True),
        draw_curves("Loss on remaining rows", cost, axis, loss),
        draw_curves("Validation accuracy", "At the iterations that evaluated it.", axis, watched),
        draw_curves("Gradient and change", moved, axis, motion, log=True),
    )


def _round_panels(steps: Sequence[Step], axis: CurveAxis) -> list[Panel]:
    """Return charts of a method with stages: loss of every stage, conflicts and direction."""
    loss = [
        Curve(word, [each.loss if each.stage == stage else None for each in steps], colour, dashes)
        for stage, word, colour, dashes in (
            ("unlearn", "unlearning", BLUE, "-"),
            ("recover", "recovery", VERMILLION, "--"),
        )
    ]
    conflicts = [Curve("clients", _values(steps, "conflicts"))]
    cosine = [Curve("cosine", _values(steps, "cosine"))]
    trained = "Mean over the clients that train in the round."
    opposed = "Remaining clients whose gradient opposes the step."
    direction = "Largest |cosine| of the step with a client's gradient."
    return _present(
        draw_curves("Loss", trained, axis, loss),
        draw_curves("Conflicts", opposed, axis, conflicts),
        draw_curves("Direction", direction, axis, cosine),
    )


def comparison_panels(request: Request) -> list[Panel]:
    """Return the charts that compare all models; a dashed line shows Retrain, if there is one."""
    if is_vertical(request):
        return _present(
            _distances(request, "forgotten", "Distance to Retrain, forgotten rows"),
            _distances(request, "retained", "Distance to Retrain, remaining rows"),
            _distances(request, "test", "Distance to Retrain, test rows"),
            _attack(request),
            _memory(request),
            _effort(request),
        )
    texts = f"Probability per token.{_dashed(request)}"
    accuracy = f"Accuracy.{_dashed(request)}"
    return _present(
        _triggers(request),
        _attack(request),
        _fairness(request),
        _shares(request, "Forgotten rows", accuracy, "forgotten_accuracy"),
        _shares(request, "Forgotten texts", texts, "text_probability"),
        _shares(request, "Retained texts", texts, "text_retained_probability"),
        _times(request),
        _effort(request),
    )


def _distances(request: Request, rows: str, title: str) -> Panel | None:
    shown = []
    for method in ordered_methods(request):
        found = (method.divergence or {}).get(rows)
        ratio = found.ratio if found else None
        at = [Mark(ratio, _accent(request, method))] if ratio else []
        shown.append(MarkRow(method.title, at, format_ratio(ratio)))
    label = f"{ratio_column(request).group.removesuffix(' to Retrain')}, logarithmic"
    scale = MarkScale(label=label, goal=1.0, start=1.0, log=True)
    return draw_marks(title, "Dashed: the distance of another Retrain.", shown, scale)


def _attack(request: Request) -> Panel | None:
    shown, column = [], attack_column(request)
    for method in ordered_methods(request):
        auc, between = column.value(method), membership_interval(method)
        at = [] if auc is None else [Mark(auc, _accent(request, method), interval=between)]
        shown.append(MarkRow(method.title, at, format_number(auc, 2)))
    scale = MarkScale(label="AUC, 95 % interval", goal=_goal(request, column))
    rows, chance = "Forgotten against unseen rows of equal classes.", " Chance is 0.5."
    if column is LOSS_AUC:
        rows, chance = "Forgotten against test rows.", ""
    caption = f"{rows}{_dashed(request)}{chance}"
    return draw_marks("Membership attack", caption, shown, scale)


def _memory(request: Request) -> Panel | None:
    """Return the accuracy, or the error, of each model on forgotten and on test rows."""
    columns, shown = error_columns(request), []
    for method in ordered_methods(request):
        forgotten, test = (column.value(method) for column in columns)
        at = [] if forgotten is None else [Mark(forgotten, BLUE, "o", "forgotten rows")]
        at += [] if test is None else [Mark(test, VERMILLION, "s", "test rows")]
        shown.append(MarkRow(method.title, at))
    column = columns[1]
    share = column.unit is Unit.SHARE
    if column is TEST_ACCURACY:
        title, label = "Accuracy", "rows predicted right"
        caption = "A higher accuracy on forgotten than on test rows shows memory."
    else:
        title, label = f"{column.title[0].upper()}{column.title[1:]}", column.title
        compared = any(is_retrain(each.name) for each in request.methods)
        shows = f"A {column.title} on forgotten rows below that of the Retrains shows memory."
        caption = shows if compared else f"The {column.title} on forgotten and on test rows."
    scale = MarkScale(label=label, show=_percent if share else "{:.3g}".format)
    return draw_marks(title, caption, shown, scale)


def _percent(value: float) -> str:
    return format_percent(value, 0)


def _triggers(request: Request) -> Panel | None:
    """Return the trigger rate of each model, before and after the reverting test."""
    shown = []
    for method in ordered_methods(request):
        delivered, reverted = (
            _column(name).value(method) for name in ("planted", "reverted_planted")
        )
        at = [] if delivered is None else [Mark(delivered, BLUE, "o", "delivered")]
        at += [] if reverted is None else [Mark(reverted, FAINT, "s", "after the reverting test")]
        text = format_percent(at[0].value) if at else ""
        shown.append(MarkRow(method.title, at, text))
    caption = f"On the leaving client's own rows.{_dashed(request)}"
    return draw_marks("Trigger rate", caption, shown, _share_scale(request, "planted", "rows"))


def _shares(request: Request, title: str, caption: str, name: str) -> Panel | None:
    """Return the values of one figure that is a fraction."""
    shown = []
    for method in ordered_methods(request):
        value = _column(name).value(method)
        at = [] if value is None else [Mark(value, BLUE)]
        shown.append(MarkRow(method.title, at, format_percent(value)))
    return draw_marks(title, caption, shown, _share_scale(request, name, "rows"))


def _fairness(request: Request) -> Panel | None:
    """Return the test accuracy from the worst to the best remaining client."""
    shown = []
    for method in ordered_methods(request):
        worst, mean, best = (
            _column(name).value(method)
            for name in ("worst_client", "client_accuracy", "best_client")
        )
        if worst is None or mean is None or best is None:
            continue
        mark = Mark(mean, _accent(request, method), interval=(worst, best))
        shown.append(MarkRow(method.title, [mark], format_percent(mean)))
    caption = f"Mean, worst and best client.{_dashed(request)}"
    scale = _share_scale(request, "client_accuracy", "test accuracy")
    return draw_marks("Remaining clients", caption, shown, scale)


def _times(request: Request) -> Panel | None:
    seconds = {each.title: each.cost.seconds for each in request.methods if each.cost}
    return draw_bars("Time", "Measured at the server.", seconds, format_seconds)


def _effort(request: Request) -> Panel | None:
    kinds = (("rows", BLUE, "o"), ("size", VERMILLION, "s"), ("seconds", GREEN, "^"))
    names = {"rows": "rows", "size": "bytes", "seconds": "seconds"}
    shown = []
    for method in ordered_methods(request):
        if is_retrain(method.name) or method.cost is None:
            continue
        costs = [(getattr(method.cost, f"{kind[0]}_of_retrain"), kind) for kind in kinds]
        at = [
            Mark(cost, colour, shape, names[kind]) for cost, (kind, colour, shape) in costs if cost
        ]
        shown.append(MarkRow(method.title, at))
    scale = MarkScale(
        label="share of Retrain", show=lambda v: format_percent(v, 0), goal=1.0, start=0.0
    )
    return draw_marks("Effort", "Dashed: the effort of a Retrain.", shown, scale)


def entropy_panels(request: Request) -> list[Panel]:
    """Return histograms of the entropy of the original, the delivered and a Retrain model."""
    entropy = (request.audits.entropy if request.audits else None) or {}
    names = (ORIGINAL, request.chosen, RETRAIN)
    sides = {name: _sides(entropy[name]) for name in names if entropy.get(name)}
    goal = sides.get(RETRAIN)
    return [
        draw_histograms(method_title(request, name), _overlap(both), entropy["edges"], both, goal)
        for name, both in sides.items()
    ]


def _sides(counts: JsonObject) -> HistogramPair:
    """Return the histograms of forgotten and of held-out rows as shares, ``[bins]`` each."""
    up, down = (np.array(counts[rows], dtype=float) for rows in ("forgotten", "heldout"))
    return up / max(1.0, up.sum()), down / max(1.0, down.sum())


def _overlap(sides: HistogramPair) -> str:
    overlap = float(np.minimum(*sides).sum())
    return f"Forgotten and held-out rows overlap by {format_percent(overlap, 0)}."


def traffic_panels(traffic: Sequence[PhaseTraffic], measured_at: str) -> list[Panel]:
    """Return the charts of time and of transferred bytes per phase.

    A chart is left out if nothing was measured, as in a simulation without messages.
    """

    def by_phase(value: Callable[[PhaseTraffic], float | None]) -> dict[str, float]:
        known = [(each.phase, found) for each in traffic if (found := value(each)) is not None]
        measured = any(found for _, found in known)
        return {PHASES.get(phase, phase): found for phase, found in known} if measured else {}

    seconds, sizes = by_phase(lambda each: each.seconds), by_phase(lambda each: each.bytes)
    return _present(
        draw_bars("Time by phase", f"Measured at the {measured_at}.", seconds, format_seconds),
        draw_bars("Bytes by phase", "In both directions.", sizes, format_size),
    )


def _dashed(request: Request) -> str:
    """Return the end of a caption that explains the dashed line; empty without a Retrain."""
    return " Dashed: Retrain." if request.has_retrains else ""


def _column(figure: str) -> Column:
    return Column("", "", ("figure", figure))


def _goal(request: Request, column: Column) -> float | None:
    at_retrain = retrain_reference(request, column)
    return at_retrain.mean if at_retrain else None


def _share_scale(request: Request, figure: str, label: str) -> MarkScale:
    goal = _goal(request, _column(figure))
    return MarkScale(label=label, show=lambda v: format_percent(v, 0), goal=goal)


def _accent(request: Request, method: MethodRecord) -> str:
    accents = {ORIGINAL: VERMILLION, request.chosen: BLUE}
    return accents.get(method.name, FAINT)


def _values(rows: Sequence[object], name: str) -> list[float | None]:
    return [getattr(each, name) for each in rows]


def _present(*panels: Panel | None) -> list[Panel]:
    return [panel for panel in panels if panel is not None]
