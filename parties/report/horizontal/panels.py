"""The figures of the page: every model beside Retrain, and the rounds of the chosen way."""

from collections.abc import Sequence

from parties.report.horizontal.labels import Record, figure, label, of, value
from parties.report.marks import Mark, Row, Scale, marks
from parties.report.plots import Course, Line, Panel, bars, curves
from parties.report.quantities import number, seconds, share
from parties.report.svg import BLUE, FAINT, VERMILLION


def training_panels(training: Record) -> list[Panel]:
    """The course of the first training."""
    rounds = training["rounds"]
    course = Course("round", [each["round"] + 1 for each in rounds])
    loss = Line("loss", [each["loss"] for each in rounds])
    return _present(curves("Loss", "Mean over the round's clients, by rows.", course, [loss]))


def method_panels(request: Record) -> list[Panel]:
    """Every model in a row, Retrain's mean dashed."""
    after = ("reverted_planted", "after going on", FAINT, "s")
    stages = (("planted", "delivered", BLUE, "o"), after)
    return _present(
        _marks(request, "The trigger", "Its own rows that follow it. Dashed: Retrain.", stages),
        _attack(request),
        _fairness(request),
        _marks(
            request, "Forgotten rows", "Share predicted right. Dashed: Retrain.",
            (("forgotten_accuracy", "", BLUE, "o"),),
        ),
        _marks(
            request, "Forgotten texts", "Probability, by token. Dashed: Retrain.",
            (("text_probability", "", BLUE, "o"),),
        ),
        _marks(
            request, "Texts that stay", "Probability, by token. Dashed: Retrain.",
            (("text_retained_probability", "", BLUE, "o"),),
        ),
        _effort(request),
    )  # fmt: skip


def _marks(
    request: Record, title: str, caption: str, kinds: Sequence[tuple[str, str, str, str]]
) -> Panel | None:
    rows = []
    for method in request["methods"]:
        known = [(value(method, name), word, colour, shape) for name, word, colour, shape in kinds]
        at = [Mark(v, colour, shape, word) for v, word, colour, shape in known if v is not None]
        rows.append(Row(label(method["name"]), at, share(at[0].value) if at else ""))
    goal = _retrain(request, kinds[0][0])
    scale = Scale(label="rows", show=lambda v: share(v, 0), goal=goal)
    return marks(title, caption, rows, scale)


def _attack(request: Record) -> Panel | None:
    rows = []
    for method in request["methods"]:
        found = figure(method, "membership_auc")
        if found is None or found["value"] is None:
            continue
        between = tuple(found["ci95"]) if found["ci95"] else None
        mark = Mark(found["value"], _accent(request, method), interval=between)
        rows.append(Row(label(method["name"]), [mark], number(found["value"], 2)))
    scale = Scale(label="AUC, 95 % interval", goal=_retrain(request, "membership_auc"))
    caption = "Forgotten against test rows of a client, class for class. Dashed: Retrain."
    return marks("Membership attack", caption, rows, scale)


def _fairness(request: Record) -> Panel | None:
    """From the worst to the best of those who stay."""
    rows = []
    for method in request["methods"]:
        worst, mean, best = (
            value(method, name) for name in ("worst_client", "client_accuracy", "best_client")
        )
        if worst is None or mean is None or best is None:
            continue
        mark = Mark(mean, _accent(request, method), interval=(worst, best))
        rows.append(Row(label(method["name"]), [mark], share(mean)))
    goal = _retrain(request, "client_accuracy")
    scale = Scale(label="test rows right", show=lambda v: share(v, 0), goal=goal)
    caption = "Mean over those who stay, from the worst to the best. Dashed: Retrain's mean."
    return marks("Those who stay", caption, rows, scale)


def _effort(request: Record) -> Panel | None:
    took = {
        label(each["name"]): each["seconds"]
        for each in request["methods"]
        if each["name"] != "original"
    }
    return bars("Time", "At the server's clock.", took, seconds)


def turn_panels(request: Record) -> list[Panel]:
    """The rounds of the chosen way: loss of those who stay, and whom a step would hurt."""
    turns = of(request, request["chosen"])["turns"]
    course = Course("round", [*range(1, len(turns) + 1)])
    stages = [
        Line(word, [t["loss"] if t["stage"] == stage else None for t in turns], colour, dashes)
        for stage, word, colour, dashes in (
            ("unlearn", "unlearning", BLUE, "-"), ("recover", "recovery", VERMILLION, "--"),
        )
    ]  # fmt: skip
    conflicts = [Line("clients", [turn["conflicts"] for turn in turns])]
    cosine = [Line("cosine", [turn["cosine"] for turn in turns])]
    score = [
        Line("forgotten", [turn.get("score") for turn in turns], BLUE),
        Line("threshold", [turn.get("threshold") for turn in turns], FAINT, "--"),
    ]
    price = [Line("price", [turn.get("price") for turn in turns])]
    return _present(
        curves("Loss", "Of those who are taught in the round.", course, stages),
        curves("Clients hurt", "Those who stay and would lose by the step.", course, conflicts),
        curves(
            "Direction", "Largest |cosine| between the step and a client's own.", course, cosine
        ),
        curves(
            "Constraint",
            "Nats a token of forgotten texts, to be above the threshold.",
            course,
            score,
        ),
        curves("Price", "Of falling short of it, in the round.", course, price),
    )


def _retrain(request: Record, name: str) -> float | None:
    found = figure(of(request, "original"), name)
    return None if found is None else found["retrain_mean"]


def _accent(request: Record, method: Record) -> str:
    accents = {"original": VERMILLION, request["chosen"]: BLUE}
    return accents.get(method["name"], FAINT)


def _present(*panels: Panel | None) -> list[Panel]:
    return [panel for panel in panels if panel is not None]
