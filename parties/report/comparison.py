"""One request's figures beside Retrain's: the reference, its spread, every gap and the verdict.

Retrain is the mean over the independent Retrains; its spread, the standard deviation over their
seeds, is the unit of every gap. The target of a figure is Retrain's, never "as low as possible".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]  # a part of metrics.json

METHODS = {
    "original": ("Original", "before forgetting"),
    "fedora": ("FedORA", "with a price on not forgetting"),
    "newton-cg": ("Newton-CG", "to the optimum of the remaining rows"),
    "sharded": ("Sharded", "touched shards trained again"),
    "fine-tune": ("Fine-tune", "on the remaining rows"),
    "gradient-ascent": ("Gradient ascent", "on the forgotten rows"),
    "relabel": ("Relabel", "wrong labels for the forgotten rows"),
    "top-only": ("Top only", "a fresh top; the bottoms stay"),
    "shrink-perturb": ("Shrink-perturb", "part of the way to a fresh start, then fine-tuned"),
    "ico-like": ("ICO-like", "one gradient taken back; reimplemented from a description"),
    "cvfu": ("CVFU", "descent at a cached sum of votes"),
    "retrain": ("Retrain", "from scratch, without the rows"),
    "retrain-2": ("Retrain, 2nd", "another random start"),
    "retrain-3": ("Retrain, 3rd", "another random start"),
    "retrain-paired": ("Retrain, paired", "the original's random start"),
}


class Kind(Enum):
    """How a figure is read."""

    SHARE = "share"  # of rows, gaps in percentage points
    SCORE = "score"  # of an attack, chance at 0.5
    RATIO = "ratio"  # Retrain is 1 by definition


@dataclass(frozen=True, slots=True)
class Measure:
    """One column: where a method's figure lies, and whether it can speak of forgetting."""

    group: str
    title: str
    short: str  # on a terminal
    path: tuple[str, ...]
    kind: Kind
    of_forgetting: bool = False


RIGHT, ATTACK, DISTANCE = "Accuracy", "Membership attack", "JS ratio to Retrain"
TEST_ACCURACY = Measure(RIGHT, "test rows", "test\nacc.", ("accuracy", "test"), Kind.SHARE)
REMAINING_CLASSES = Measure(
    RIGHT,
    "test, remaining classes",
    "other\nacc.",
    ("accuracy", "test_remaining_classes"),
    Kind.SHARE,
)
FORGOTTEN_RATIO = Measure(
    DISTANCE,
    "forgotten rows",
    "JS\nforget",
    ("divergence", "forgotten", "ratio"),
    Kind.RATIO,
    True,
)
MEASURES = (
    TEST_ACCURACY,
    REMAINING_CLASSES,
    Measure(RIGHT, "forgotten rows", "forget\nacc.", ("accuracy", "forgotten"), Kind.SHARE, True),
    Measure(
        ATTACK,
        "balanced accuracy",
        "attack\nbal.",
        ("membership", "balanced_accuracy"),
        Kind.SCORE,
        True,
    ),
    Measure(ATTACK, "AUC", "attack\nAUC", ("membership", "auc"), Kind.SCORE, True),
    FORGOTTEN_RATIO,
    Measure(
        DISTANCE, "remaining rows", "JS\nremain", ("divergence", "retained", "ratio"), Kind.RATIO
    ),
    Measure(DISTANCE, "test rows", "JS\ntest", ("divergence", "test", "ratio"), Kind.RATIO),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A figure at Retrain: its mean over seeds, and their spread, unknown for fewer than two."""

    mean: float
    spread: float | None
    seeds: int


class Outcome(Enum):
    """What the chosen method's distance to Retrain on the forgotten rows amounts to."""

    REACHED = "On the forgotten rows as near to a Retrain as another Retrain is"
    NEARER = "Nearer to a Retrain than before, but not there"
    NO_NEARER = "No nearer to a Retrain than the untouched original"
    MOOT = "Proves nothing here: the untouched original is already as near to a Retrain"
    UNKNOWN = "Not compared with a Retrain"
    PROMISED = "Promised, not measured: see what the method computed of it"


def columns(request: Record) -> list[Measure]:
    """Return the table's measures; the remaining classes only where a whole class went."""
    some = any(look(method, *REMAINING_CLASSES.path) is not None for method in request["methods"])
    return [measure for measure in MEASURES if some or measure is not REMAINING_CLASSES]


def look(record: Record | None, *path: str) -> Any:
    """Return what lies at ``path``, or None where something on the way was not run."""
    found: Any = record
    for key in path:
        found = None if found is None else found.get(key)
    return found


def label(name: str) -> str:
    """Return a method's name as people read it."""
    return METHODS.get(name, (name, ""))[0]


def methods(request: Record) -> list[Record]:
    """Return the methods that were run: the original, the chosen one, then as the table has them.

    Unknown ones come last.
    """
    first = ["original", chosen(request)]
    order = [*first, *(name for name in METHODS if name not in first)]
    return sorted(
        request["methods"],
        key=lambda method: order.index(method["name"]) if method["name"] in order else len(order),
    )


def figure(request: Record, name: str, *path: str) -> Any:
    """Return one figure of the method called ``name``, or None."""
    found = next((method for method in request["methods"] if method["name"] == name), None)
    return look(found, *path)


def chosen(request: Record) -> str:
    """Return the name of the method whose model was delivered."""
    name: str = request["method"]
    return name


def is_independent(name: str) -> bool:
    """Return whether a method is a Retrain with a seed of its own."""
    return name == "retrain" or name.removeprefix("retrain-").isdigit()


def reference(request: Record, path: tuple[str, ...]) -> Reference | None:
    """Return a figure at Retrain, or None where no Retrain has it."""
    found = _at_retrains(request, path)
    if not found:
        return None
    return Reference(fmean(found), stdev(found) if len(found) > 1 else None, len(found))


def reach(request: Record) -> float:
    """Return the largest JS ratio on forgotten rows of a Retrain to the others, at least 1."""
    return max([1.0, *_at_retrains(request, FORGOTTEN_RATIO.path)])


def _at_retrains(request: Record, path: tuple[str, ...]) -> list[float]:
    """Return a figure of every independent Retrain that has it."""
    names = [method["name"] for method in request["methods"] if is_independent(method["name"])]
    return [value for name in names if (value := figure(request, name, *path)) is not None]


def outcome(request: Record) -> Outcome:
    """Judge the chosen method by its JS ratio on the forgotten rows, compared as printed."""
    before = figure(request, "original", *FORGOTTEN_RATIO.path)
    after = figure(request, chosen(request), *FORGOTTEN_RATIO.path)
    if _is_promised(request):
        return Outcome.PROMISED
    if after is None or before is None:
        return Outcome.UNKNOWN
    near = round(reach(request), 1)
    if round(before, 1) <= near:
        return Outcome.MOOT
    if round(after, 1) <= near:
        return Outcome.REACHED
    return Outcome.NEARER if round(after, 1) < round(before, 1) else Outcome.NO_NEARER


def _is_promised(request: Record) -> bool:
    """Return whether the chosen method is exact by construction, or reached its agreed bound."""
    facts = figure(request, chosen(request), "facts")
    bound = look(facts, "certificate", "bound")
    reached = bound is not None and bound <= look(facts, "certificate", "wanted")
    return reached or look(facts, "sharding") is not None


def is_met(request: Record, measure: Measure) -> bool | None:
    """Return whether the untouched original already meets a figure; None if that is unknown.

    It does within two spreads of Retrain (a JS ratio: within reach, as printed); an attack also
    where the interval of the original's AUC holds Retrain's.
    """
    before = figure(request, "original", *measure.path)
    if measure.kind is Kind.RATIO:
        return None if before is None else round(before, 1) <= round(reach(request), 1)
    at_retrain = reference(request, measure.path)
    if before is None or at_retrain is None or at_retrain.spread is None:
        return None
    near = abs(before - at_retrain.mean) <= 2 * at_retrain.spread
    return near or (measure.kind is Kind.SCORE and _interval_holds_retrain(request))


def _interval_holds_retrain(request: Record) -> bool:
    interval = figure(request, "original", "membership", "interval")
    at_retrain = reference(request, ("membership", "auc"))
    return bool(interval and at_retrain and interval[0] <= at_retrain.mean <= interval[1])
