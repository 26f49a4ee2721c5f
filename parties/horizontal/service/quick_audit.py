"""The quick audit of a request after the run: what the clients can measure without a Retrain."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from parties.common.errors import PolicyError
from parties.horizontal.engine.training_plan import ORIGINAL
from parties.report.columns import find_figure
from parties.report.record import MethodRecord

# What is summed over the rows of each kind, and the name of its mean; the first kind is the
# utility. Of rows, the correct predictions. Of texts, which have no validation part, p^(1/t), see
# ``RowMetrics.probability``.
_ROWS = ("correct", {"validation": "validation", "test": "test", "forgotten": "forgotten"})
_TEXTS = (
    "probability",
    {
        "retained": "retained_probability",
        "test": "test_probability",
        "forgotten": "forgotten_probability",
    },
)


def audit_figures(methods: Sequence[MethodRecord], chosen: str) -> dict[str, str]:
    """Return the figures of the model before a request and of the one after it, as texts.

    The figure of utility is the first one: accuracy on validation rows, or the probability of
    retained answers. Only clients that still have training rows count for it, and for test rows.

    Args:
        methods: the records of the model before the request and of the chosen method.
        chosen: name of the chosen method; ``original`` if no client had such rows.
    """
    if chosen == ORIGINAL:
        return {}
    by_name = {each.name: each for each in methods}
    before, after = by_name[ORIGINAL], by_name[chosen]
    count, kinds = _measure(after)
    found = dict[str, str]()
    for kind, name in kinds.items():
        for when, method in (("before", before), ("after", after)):
            value, rows = _mean(method, kind, count)
            if value is not None:
                found[f"{name}_{when}"] = f"{value:.4f}"
        if value is not None and kind != "forgotten":
            found[f"{name}_rows"] = str(rows)
    return found | _membership(after)


def utility_means(retrains: Sequence[MethodRecord]) -> dict[str, float]:
    """Return the mean of each figure of ``audit_figures`` over Retrains, by its name.

    Args:
        retrains: the records of the Retrains; at least one.
    """
    count, kinds = _measure(retrains[0])
    found = dict[str, float]()
    for kind, name in kinds.items():
        values = [value for each in retrains if (value := _mean(each, kind, count)[0]) is not None]
        if values:
            found[f"{name}_retrain"] = fmean(values)
    return found


def require_utility(methods: Sequence[MethodRecord], chosen: str, guard: float) -> None:
    """Refuse a model that lost more than agreed on rows of the clients that remain.

    Args:
        methods: the records of the model before the request and of the chosen method.
        chosen: name of the chosen method; ``original`` if no client had such rows.
        guard: largest loss of the figure of utility, as ``audit_figures`` explains it.

    Raises:
        PolicyError: the model lost more.
    """
    if chosen == ORIGINAL:
        return
    by_name = {each.name: each for each in methods}
    count, kinds = _measure(by_name[chosen])
    kind = next(iter(kinds))
    before, after = (_mean(by_name[name], kind, count)[0] for name in (ORIGINAL, chosen))
    if before is not None and after is not None and before - after > guard:
        what = "accuracy on validation rows"
        if kind != "validation":
            what = "the mean probability of retained answers"
        raise PolicyError(
            f"{what} fell from {before:.4f} to {after:.4f}, more than requests.guard allows",
            "set another unlearning.method at all parties, and start them again: the request is "
            "then carried out by that method",
        )


def _measure(method: MethodRecord) -> tuple[str, Mapping[str, str]]:
    """What is summed over the rows, and the name of its figure by kind of rows."""
    return _ROWS if "validation" in _scores(method) else _TEXTS


def _mean(method: MethodRecord, kind: str, count: str) -> tuple[float | None, int]:
    """The mean of ``count`` over the rows of a kind, and their number; None without rows."""
    scores = _scores(method)
    remaining = {name for name, each in scores["retained"].items() if each["rows"]}
    known = [
        each for name, each in scores[kind].items() if kind == "forgotten" or name in remaining
    ]
    rows = sum(each["rows"] for each in known)
    return (sum(each[count] for each in known) / rows if rows else None), rows


def _scores(method: MethodRecord) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    if method.scores is None:
        raise LookupError(f"{method.name} has no scores")
    return method.scores


def _membership(method: MethodRecord) -> dict[str, str]:
    """The AUC of the attack on forgotten and test rows, and how far its 95 % interval reaches."""
    figure = find_figure(method, "membership_auc")
    if figure is None or figure.value is None:
        return {}
    found = {"membership_auc": f"{figure.value:.4f}"}
    if figure.ci95 is not None:
        low, high = figure.ci95
        found["membership_error"] = f"{max(figure.value - low, high - figure.value):.4f}"
    return found
