"""The report's figures: which of the metrics are seen, and beside what."""

from collections.abc import Sequence

import numpy as np

from parties.report.comparison import (
    Record,
    chosen,
    label,
    look,
    methods,
    reference,
)
from parties.report.marks import Mark, Row, Scale, marks
from parties.report.plots import Course, Line, Panel, Sides, Values, bars, butterfly, curves
from parties.report.quantities import number, seconds, share, size, times
from parties.report.svg import BLUE, FAINT, GREEN, INK, VERMILLION

PHASES = {"psi": "alignment (PSI)"}


def training_panels(training: Record | None) -> list[Panel]:
    """Return the course of the first training, with the epoch that was kept."""
    epochs = look(training, "epochs") or []
    course = Course("epoch", [epoch["epoch"] for epoch in epochs], look(training, "best_epoch"))

    def pair(learned: str, held: str) -> list[Line]:
        return [
            Line("training", _column(epochs, learned)),
            Line("validation", _column(epochs, held), VERMILLION, "--"),
        ]

    loss, right = pair("loss", "validation_loss"), pair("accuracy", "validation_accuracy")
    return _present(
        curves("Loss", "Cross entropy.", course, loss),
        curves("Accuracy", "Share of rows predicted right.", course, right),
    )


def iteration_panels(request: Record) -> list[Panel]:
    """Return the course of FedORA: the constraint, its price, the steps, and what they cost."""
    steps = request["iterations"] or []
    course = Course("iteration", [step["iteration"] for step in steps])

    def line(name: str, key: str, colour: str = BLUE, dashes: str = "-") -> Line:
        return Line(name, _column(steps, key), colour, dashes)

    sizes = [
        line("primal τ", "primal_step"),
        line("dual σ", "dual_step", VERMILLION, "--"),
        line("bound of σ", "dual_bound", INK, ":"),
    ]
    motion = [line("gradient ‖g‖", "gradient_norm"), line("change ΔΘ", "change", VERMILLION, "--")]
    price, loss = [line("price Ω", "price")], [line("loss", "retain_loss")]
    watched = [line("accuracy", "validation_accuracy")]
    return _present(
        curves(
            "Forgetting score", "Below the threshold γ its price rises.", course, _score(request)
        ),
        curves("Price of not forgetting", "The dual Ω; it settles once γ is met.", course, price),
        curves("Step sizes", "σ has to stay below its bound.", course, sizes, log=True),
        curves("Loss on remaining rows", "What the rows that stay pay for it.", course, loss),
        curves("Validation accuracy", "Where it was looked at.", course, watched),
        curves("Motion", "Gradient of the score, change of the model.", course, motion, log=True),
    )


def _score(request: Record) -> list[Line]:
    """Return the forgetting score with its threshold and where a Retrain's lies."""
    course = request["iterations"] or []
    last = look(request, "threshold", "gamma")
    threshold = [step.get("threshold", last) for step in course]
    retrain = look(request, "threshold", "retrain_score")
    return [
        Line("score", _column(course, "forgetting")),
        Line("threshold γ", threshold, INK, "--"),
        Line("a Retrain's", [retrain] * len(course), GREEN, ":"),
    ]


def comparison_panels(request: Record) -> list[Panel]:
    """Return every method beside Retrain: distances, the attack, accuracies and effort."""
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
    for method in methods(request):
        ratio = look(method, "divergence", rows, "ratio")
        at = [Mark(ratio, _accent(request, method))] if ratio else []
        shown.append(Row(label(method["name"]), at, times(ratio)))
    scale = Scale(label="JS ratio, logarithmic", goal=1.0, start=1.0, log=True)
    return marks(title, "Dashed: as near as another Retrain is.", shown, scale)


def _attack(request: Record) -> Panel | None:
    shown = []
    for method in methods(request):
        auc, interval = look(method, "membership", "auc"), look(method, "membership", "interval")
        between = tuple(interval) if interval else None
        at = [] if auc is None else [Mark(auc, _accent(request, method), interval=between)]
        shown.append(Row(label(method["name"]), at, number(auc, 2)))
    at_retrain = reference(request, ("membership", "auc"))
    scale = Scale(label="AUC, 95 % interval", goal=at_retrain.mean if at_retrain else None)
    return marks("Membership attack", "Dashed: Retrain. Chance is 0.5.", shown, scale)


def _accuracies(request: Record) -> Panel | None:
    shown = []
    for method in methods(request):
        forgotten, test = (look(method, "accuracy", rows) for rows in ("forgotten", "test"))
        at = [] if forgotten is None else [Mark(forgotten, BLUE, "o", "forgotten rows")]
        at += [] if test is None else [Mark(test, VERMILLION, "s", "test rows")]
        shown.append(Row(label(method["name"]), at))
    scale = Scale(label="rows predicted right", show=lambda v: share(v, 0))
    return marks("Accuracy", "Memory shows as forgotten rows ahead of test rows.", shown, scale)


def _effort(request: Record) -> Panel | None:
    kinds = (("rows", BLUE, "o"), ("bytes", VERMILLION, "s"), ("seconds", GREEN, "^"))
    shown = []
    for method in methods(request):
        costs = [(look(method, "cost", f"{kind[0]}_of_retrain"), kind) for kind in kinds]
        at = [Mark(cost, colour, shape, name) for cost, (name, colour, shape) in costs if cost]
        shown.append(Row(label(method["name"]), at))
    unlearned = [row for row in shown if not row.name.startswith(label("retrain"))]
    scale = Scale(label="of Retrain", show=lambda v: share(v, 0), goal=1.0, start=0.0)
    return marks("Effort", "Dashed: what a Retrain takes.", unlearned, scale)


def entropy_panels(request: Record) -> list[Panel]:
    """Return how unsure the models are, before and after forgetting and at a Retrain."""
    entropy = request["entropy"] or {}
    seen = ("original", chosen(request), "retrain")
    sides = {name: _sides(entropy[name]) for name in seen if entropy.get(name)}
    goal = sides.get("retrain")
    return [
        butterfly(label(name), _overlap(both), entropy["edges"], both, goal)
        for name, both in sides.items()
    ]


def _sides(counts: Record) -> Sides:
    """Return the histograms of forgotten and held-out rows as shares."""
    up, down = (np.array(counts[rows], dtype=float) for rows in ("forgotten", "heldout"))
    return up / max(1.0, up.sum()), down / max(1.0, down.sum())


def _overlap(sides: Sides) -> str:
    return f"Forgotten and held-out rows overlap by {share(float(np.minimum(*sides).sum()), 0)}."


def traffic_panels(traffic: Sequence[Record] | None) -> list[Panel]:
    """Return time and bytes by phase."""

    def by_phase(key: str) -> dict[str, float]:
        known = [row for row in traffic or [] if row[key] is not None]
        return {PHASES.get(row["phase"], str(row["phase"])): row[key] for row in known}

    return _present(
        bars("Time by phase", "At the active party's clock.", by_phase("seconds"), seconds),
        bars("Bytes by phase", "In both directions.", by_phase("bytes"), size),
    )


def _accent(request: Record, method: Record) -> str:
    accents = {"original": VERMILLION, chosen(request): BLUE}
    return accents.get(method["name"], FAINT)


def _column(rows: Sequence[Record], key: str) -> Values:
    return [row.get(key) for row in rows]


def _present(*panels: Panel | None) -> list[Panel]:
    return [panel for panel in panels if panel is not None]
