"""Charts of the page: every model in comparison with Retrain, and the chosen method's rounds."""

from collections.abc import Sequence

from parties.report.charts.plots import (
    BLUE,
    FAINT,
    VERMILLION,
    Curve,
    CurveAxis,
    Mark,
    MarkRow,
    MarkScale,
    Panel,
    draw_bars,
    draw_curves,
    draw_marks,
)
from parties.report.horizontal.labels import (
    Record,
    find_method,
    find_metric,
    method_label,
    metric_value,
)
from parties.report.quantities import format_number, format_percent, format_seconds


def loss_panels(training: Record) -> list[Panel]:
    """Return the chart of the training loss."""
    rounds = training["rounds"]
    course = CurveAxis("round", [each["round"] + 1 for each in rounds])
    loss = Curve("loss", [each["loss"] for each in rounds])
    caption = "Mean over the clients of the round, weighted by rows."
    return _present(draw_curves("Loss", caption, course, [loss]))


def method_panels(request: Record) -> list[Panel]:
    """Return the charts with one row per model; a dashed line shows the Retrain models' mean."""
    after = ("reverted_planted", "after the reverting test", FAINT, "s")
    stages = (("planted", "delivered", BLUE, "o"), after)
    return _present(
        _marks(
            request, "Trigger rate", "On the leaving client's own rows. Dashed: Retrain.", stages
        ),
        _attack(request),
        _fairness(request),
        _marks(
            request, "Forgotten rows", "Accuracy. Dashed: Retrain.",
            (("forgotten_accuracy", "", BLUE, "o"),),
        ),
        _marks(
            request, "Forgotten texts", "Probability per token. Dashed: Retrain.",
            (("text_probability", "", BLUE, "o"),),
        ),
        _marks(
            request, "Retained texts", "Probability per token. Dashed: Retrain.",
            (("text_retained_probability", "", BLUE, "o"),),
        ),
        _effort(request),
    )  # fmt: skip


def _marks(
    request: Record, title: str, caption: str, kinds: Sequence[tuple[str, str, str, str]]
) -> Panel | None:
    rows = []
    for method in request["methods"]:
        known = [
            (metric_value(method, name), word, colour, shape) for name, word, colour, shape in kinds
        ]
        at = [Mark(v, colour, shape, word) for v, word, colour, shape in known if v is not None]
        rows.append(
            MarkRow(method_label(method["name"]), at, format_percent(at[0].value) if at else "")
        )
    goal = _retrain(request, kinds[0][0])
    scale = MarkScale(label="rows", show=lambda v: format_percent(v, 0), goal=goal)
    return draw_marks(title, caption, rows, scale)


def _attack(request: Record) -> Panel | None:
    rows = []
    for method in request["methods"]:
        found = find_metric(method, "membership_auc")
        if found is None or found["value"] is None:
            continue
        between = tuple(found["ci95"]) if found["ci95"] else None
        mark = Mark(found["value"], _accent(request, method), interval=between)
        rows.append(MarkRow(method_label(method["name"]), [mark], format_number(found["value"], 2)))
    scale = MarkScale(label="AUC, 95 % interval", goal=_retrain(request, "membership_auc"))
    caption = "Forgotten rows against test rows with equal classes. Dashed: Retrain."
    return draw_marks("Membership inference", caption, rows, scale)


def _fairness(request: Record) -> Panel | None:
    """Test accuracy from the worst to the best remaining client."""
    rows = []
    for method in request["methods"]:
        worst, mean, best = (
            metric_value(method, name)
            for name in ("worst_client", "client_accuracy", "best_client")
        )
        if worst is None or mean is None or best is None:
            continue
        mark = Mark(mean, _accent(request, method), interval=(worst, best))
        rows.append(MarkRow(method_label(method["name"]), [mark], format_percent(mean)))
    goal = _retrain(request, "client_accuracy")
    scale = MarkScale(label="test accuracy", show=lambda v: format_percent(v, 0), goal=goal)
    caption = "Mean, worst and best client. Dashed: Retrain's mean."
    return draw_marks("Remaining clients", caption, rows, scale)


def _effort(request: Record) -> Panel | None:
    seconds = {
        method_label(each["name"]): each["seconds"]
        for each in request["methods"]
        if each["name"] != "original"
    }
    return draw_bars("Time", "Measured at the server.", seconds, format_seconds)


def round_panels(request: Record) -> list[Panel]:
    """Return the charts of the chosen method's rounds."""
    rounds = find_method(request, request["chosen"])["rounds"]
    course = CurveAxis("round", [*range(1, len(rounds) + 1)])
    stages = [
        Curve(word, [r["loss"] if r["stage"] == stage else None for r in rounds], colour, dashes)
        for stage, word, colour, dashes in (
            ("unlearn", "unlearning", BLUE, "-"), ("recover", "recovery", VERMILLION, "--"),
        )
    ]  # fmt: skip
    conflicts = [Curve("clients", [each["conflicts"] for each in rounds])]
    cosine = [Curve("cosine", [each["cosine"] for each in rounds])]
    score = [
        Curve("forgotten", [each.get("score") for each in rounds], BLUE),
        Curve("threshold", [each.get("threshold") for each in rounds], FAINT, "--"),
    ]
    multiplier = [Curve("dual Ω", [each.get("multiplier") for each in rounds])]
    return _present(
        draw_curves("Loss", "Mean over the clients that train in the round.", course, stages),
        draw_curves(
            "Conflicts", "Remaining clients whose gradient opposes the step.", course, conflicts
        ),
        draw_curves(
            "Direction", "Largest |cosine| of the step with a client's gradient.", course, cosine
        ),
        draw_curves(
            "Constraint",
            "Loss per token of forgotten texts in nats; must exceed the threshold.",
            course,
            score,
        ),
        draw_curves("Dual variable Ω", "Weight of the constraint.", course, multiplier),
    )


def _retrain(request: Record, name: str) -> float | None:
    found = find_metric(find_method(request, "original"), name)
    return None if found is None else found["retrain_mean"]


def _accent(request: Record, method: Record) -> str:
    accents = {"original": VERMILLION, request["chosen"]: BLUE}
    return accents.get(method["name"], FAINT)


def _present(*panels: Panel | None) -> list[Panel]:
    return [panel for panel in panels if panel is not None]
