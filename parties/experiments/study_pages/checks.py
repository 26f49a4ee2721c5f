"""Checks of a forgetting study: values with requirements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.plan import ORIGINAL, TRAINING
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary
from parties.vertical.methods.fedora import ConstraintUse
from unlearning.audit.intervals import seed_interval

# Methods whose figures are checks.
FEDORA: Final = "FedORA"  # with the defaults
DUAL_OFF: Final = "FedORA, dual off"  # the same steps without the dual
REDRAWN: Final = "FedORA, redrawn start"
TEN: Final = "FedORA, ten requests"  # one after another
LOCAL: Final = "local Retrain"
DELIVERED: Final = (FEDORA, LOCAL)
# Wanted of FedORA: part of the trained model's excess that remains, part that the dual removes,
# loss of accuracy in points, rows of a Retrain, difference of the trigger from Retrain's in points.
REMAINING, REMOVED, LOSS, ROWS, TRIGGER = 0.5, 0.25, 1.0, 0.12, 5.0
REMAINING_BEST: Final = 1 / 3  # as REMAINING, for the better of two starts
# Wanted of ten requests against one: difference of the leak, and of the accuracy in points.
TEN_LEAK, TEN_GAP = 0.02, 0.5
ACTIVE: Final = 0.5  # iterations in which the dual is above 0


@dataclass(frozen=True, slots=True)
class StudyCheck:
    """A value of the study and its requirement; ``ok`` is None without a requirement."""

    name: str
    value: float
    unit: str
    wanted: str = ""
    ok: bool | None = None


def study_checks(found: Sequence[PopulationSummary]) -> Iterator[StudyCheck]:
    """Yield the checks of every population."""
    for each in found:
        yield from _checks_of(each)


def _checks_of(found: PopulationSummary) -> Iterator[StudyCheck]:
    where = found.name
    for own in found.methods:
        leak, name = own.auc[U_LIRA], f"{where}: leak of {own.name}"
        interval = f"interval {leak.low:.3f} to {leak.high:.3f}"
        if own.name == NULL or own.way == TRAINING:
            yield StudyCheck(name, leak.value, interval, "the interval holds 0.5", leak.holds_half)
        elif own.name in DELIVERED:
            yield StudyCheck(name, leak.value, interval)
            gap = f"{where}: test accuracy of {own.name} minus that of Retrain"
            yield StudyCheck(gap, own.gap.mean, f"± {own.gap.error:.2f} points")
            share = f"{where}: rows of {own.name} that crossed, relative to Retrain"
            yield StudyCheck(share, own.rows, "")
    names = {each.name for each in found.methods}
    if {FEDORA, DUAL_OFF, ORIGINAL.name} <= names:
        yield from _constraint_checks(found)
    if {FEDORA, REDRAWN, ORIGINAL.name} <= names and shows_forgetting(found):
        left = min(_remaining(found, each) for each in (FEDORA, REDRAWN))
        title = f"{where}: {FEDORA}, the better start: part of the excess that remains"
        wanted = f"at most {REMAINING_BEST:.2f}"
        yield StudyCheck(title, left, "", wanted, left <= REMAINING_BEST)
    if {FEDORA, TEN} <= names:
        yield from _ten_checks(found)


def shows_forgetting(found: PopulationSummary) -> bool:
    """Return whether a population can show forgetting: its trained models leak more than Retrain.

    Else the excess leak of the trained models, in which others are measured, is chance.
    """
    trained, null = (found.method(each).auc[U_LIRA] for each in (ORIGINAL.name, NULL))
    return trained.low > 0.5 and trained.value > null.value


def _remaining(found: PopulationSummary, name: str) -> float:
    """The excess leak of a method over that of the trained models."""
    excess = {each: found.method(each).auc[U_LIRA].value - 0.5 for each in (name, ORIGINAL.name)}
    return excess[name] / excess[ORIGINAL.name]


def _constraint_checks(found: PopulationSummary) -> Iterator[StudyCheck]:
    """What FedORA's constraint must show on a population."""
    own, where = found.method(FEDORA), f"{found.name}: {FEDORA}"
    if shows_forgetting(found):
        yield from _leak_checks(found)
    yield StudyCheck(f"{where}: test accuracy minus Retrain's", own.gap.mean, "points",
                     f"at least -{LOSS:g}", own.gap.mean >= -LOSS)  # fmt: skip
    yield StudyCheck(f"{where}: rows that crossed, relative to Retrain", own.rows, "",
                     f"at most {ROWS}", own.rows <= ROWS)  # fmt: skip
    null = found.method(NULL).triggered
    if own.triggered and null:
        apart = own.triggered.mean - null.mean
        yield StudyCheck(f"{where}: trigger minus Retrain's", apart, "points",
                         f"within {TRIGGER:g}", abs(apart) <= TRIGGER)  # fmt: skip
    yield from _use_checks(where, own.constraint)


def _leak_checks(found: PopulationSummary) -> Iterator[StudyCheck]:
    """What FedORA and its dual leave of the leak of the trained models."""
    own, off, trained = (found.method(each) for each in (FEDORA, DUAL_OFF, ORIGINAL.name))
    where, left = f"{found.name}: {FEDORA}", _remaining(found, FEDORA)
    yield StudyCheck(f"{where}: part of the original's excess leak that remains", left, "",
                     f"at most {REMAINING}", left <= REMAINING)  # fmt: skip
    if own.leaks and len(own.leaks) == len(off.leaks):
        low, high = _difference(off, own)
        part = off.auc[U_LIRA].value - own.auc[U_LIRA].value
        part /= trained.auc[U_LIRA].value - 0.5
        yield StudyCheck(
            f"{where}: leak that the dual removes, of the original's excess", part,
            f"AUC before the correction lower by {low:.3f} to {high:.3f}",
            f"at least {REMOVED}, interval above 0", part >= REMOVED and low > 0,
        )  # fmt: skip


def _difference(one: MethodSummary, other: MethodSummary) -> tuple[float, float]:
    """The 95 % interval over seeds of the difference of two leaks before their correction."""
    return seed_interval([a - b for a, b in zip(one.leaks, other.leaks, strict=True)])


def _ten_checks(found: PopulationSummary) -> Iterator[StudyCheck]:
    """Ten requests, one after another, against one request about the same rows."""
    ten, one, title = found.method(TEN), found.method(FEDORA), f"{found.name}: {TEN} against one"
    leak = ten.auc[U_LIRA].value - one.auc[U_LIRA].value
    gap = ten.gap.mean - one.gap.mean
    low, high = _difference(ten, one)
    unit = f"before the correction {low:+.3f} to {high:+.3f}"
    yield StudyCheck(f"{title}, leak", leak, unit, f"within {TEN_LEAK}", abs(leak) <= TEN_LEAK)
    yield StudyCheck(f"{title}, test accuracy", gap, "points", f"within {TEN_GAP}",
                     abs(gap) <= TEN_GAP)  # fmt: skip


def _use_checks(where: str, use: ConstraintUse | None) -> Iterator[StudyCheck]:
    if use is not None:
        active = use.active / use.iterations
        title = f"{where}: iterations with a dual"
        yield StudyCheck(f"{title} above 0", active, "", f"at least {ACTIVE}", active >= ACTIVE)
        most = use.at_maximum
        yield StudyCheck(f"{title} at its maximum", most, "", "0", not most)
