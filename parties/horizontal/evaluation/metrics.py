"""What the models of a request amount to: each figure of each model beside Retrain's.

Letters: D_u = the rows to be forgotten, φ as in ``odds``.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from parties.horizontal.engine.cohort import Score
from parties.horizontal.evaluation.outcome import Outcome, Scores, of_clients
from parties.horizontal.evaluation.whole_model import FORGOTTEN, RETAINED
from parties.horizontal.local.score_histogram import apart, pooled, spread
from unlearning.audit.figure import Direction, Figure, Measured, table
from unlearning.audit.intervals import of_auc, of_share
from unlearning.audit.scores import auc, tpr_at

FEW = 100  # rows of a side; with fewer an attack's figure supports nothing
RETRAIN = "retrain"
ALIKE = "rows of D_u without a trigger and test rows of the same client, class for class"


def figures(outcomes: Sequence[Outcome], leaving: set[str]) -> dict[str, list[Figure]]:
    """Every figure of every model; ``leaving`` are the clients some of whose rows go."""
    retrains = [each for each in outcomes if is_retrain(each.name)]
    measured = {each.name: _of(each, retrains, leaving) for each in outcomes}
    return table(measured, [each.name for each in retrains])


def is_retrain(name: str) -> bool:
    """Whether a model of this name never saw the rows."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")


def _of(outcome: Outcome, retrains: Sequence[Outcome], leaving: set[str]) -> dict[str, Measured]:
    others = [each for each in retrains if each.name != outcome.name]
    found = {
        **_accuracies(outcome.scores, leaving),
        **_membership(outcome.scores),
        "odds_to_retrain": _to_retrain(outcome, others),
        **_conflicts(outcome),
        **_skipped(outcome),
    }
    for stage, scores in outcome.stages.items():
        found |= {f"{stage}_{name}": e for name, e in _accuracies(scores, leaving).items()}
    return found


def _accuracies(scores: Scores, leaving: set[str]) -> dict[str, Measured]:
    """Shares predicted right: test rows of those who stay, D_u, rows with the trigger.

    Who left by an earlier request has no row to learn from, and does not stay.
    """
    stay = {name for name, each in scores["retained"].items() if each.rows}
    staying = of_clients(scores["held"], stay)
    single, validation = (_single(scores[kind], stay) for kind in ("held", "validation"))
    return {
        "test_accuracy": _share(staying, Direction.HIGHER),
        "client_accuracy": _over(single, fmean, "the mean of those who stay, all alike"),
        "validation_accuracy": _over(validation, fmean, "by which settings are chosen"),
        "worst_client": _over(single, min, "the least of those who stay"),
        "best_client": _over(single, max, "the most of those who stay"),
        "leaving_test_accuracy": _share(of_clients(scores["held"], leaving)),
        "forgotten_accuracy": _share(of_clients(scores["forgotten"])),
        "retained_accuracy": _share(of_clients(scores["retained"]), Direction.HIGHER),
        # FedOSD's ASR: the leaving client's own training rows that bear the trigger.
        "planted": _share(of_clients(scores["planted"], leaving)),
        "stamped": _share(of_clients(scores["stamped"])),
        **_lent(scores),
    }


def _lent(scores: Scores) -> dict[str, Measured]:
    """One staying client's whole model, on D_u and on its own training rows (Mimir, Table III)."""
    if FORGOTTEN not in scores:
        return {}
    return {
        FORGOTTEN: _share(of_clients(scores[FORGOTTEN])),
        RETAINED: _share(of_clients(scores[RETAINED]), Direction.HIGHER),
    }


def _single(scores: Mapping[str, Score], stay: set[str]) -> list[float]:
    """The share right of each client that stays."""
    return [each.right / each.rows for each in of_clients(scores, stay)]


def _share(some: Sequence[Score], direction: Direction = Direction.RETRAIN) -> Measured:
    rows, right = sum(each.rows for each in some), sum(each.right for each in some)
    if not rows:
        return Measured(None, 0, direction=direction, note="no such row")
    return Measured(right / rows, rows, of_share(right, rows), direction)


def _over(single: Sequence[float], of: Callable[[Sequence[float]], float], note: str) -> Measured:
    value = of(single) if single else None
    return Measured(value, len(single), direction=Direction.HIGHER, note=note)


def _membership(scores: Scores) -> dict[str, Measured]:
    """D_u against test rows of the same clients, told apart by φ; no row bears a trigger.

    Each client has chosen as many rows of either side, class for class.
    """
    members = spread(_odds(of_clients(scores["members"])))
    others = spread(_odds(of_clients(scores["non_members"])))
    n = min(len(members), len(others))
    if not n:
        nothing = Measured(None, 0, note=f"no {ALIKE}")
        return {"membership_auc": nothing, "membership_tpr_at_1_fpr": nothing}
    value = auc(members, others)
    interval = of_auc(value, len(members), len(others))
    found = tpr_at(members, others)
    return {
        "membership_auc": Measured(value, n, interval, least=FEW, note=ALIKE),
        "membership_tpr_at_1_fpr": Measured(found, n, least=FEW, note=ALIKE),
    }


def _odds(some: Sequence[Score]) -> tuple[int, ...]:
    return pooled(each.odds for each in some)


def _to_retrain(outcome: Outcome, others: Sequence[Outcome]) -> Measured:
    """The mean distance of φ on D_u to the Retrains'."""
    rows = of_clients(outcome.scores["forgotten"])
    theirs = [_odds(of_clients(each.scores["forgotten"])) for each in others]
    known = [d for d in (apart(_odds(rows), each) for each in theirs) if d is not None]
    note = "Kolmogorov and Smirnov's, of the odds of each row's own class"
    value = fmean(known) if known else None
    return Measured(value, sum(e.rows for e in rows), direction=Direction.LOWER, note=note)


def _conflicts(outcome: Outcome) -> Mapping[str, Measured]:
    """How many who stay a step of unlearning would hurt, mean over its rounds (FedOSD's NC)."""
    turns = [turn for turn in outcome.turns if turn["conflicts"] is not None]
    if not turns:
        return {}
    count = Measured(fmean(t["conflicts"] for t in turns), len(turns), direction=Direction.LOWER)
    most = Measured(max(t["cosine"] for t in turns), len(turns), direction=Direction.LOWER)
    return {"conflicts": count, "largest_cosine": most}


def _skipped(outcome: Outcome) -> Mapping[str, Measured]:
    """How many rounds of unlearning left the model as it was, of those that there were.

    FedOSD's do where g_u lies in the span of the others', FedGKT's where no image passes the gate.
    """
    turns = [turn for turn in outcome.turns if turn["stage"] == "unlearn"]
    if not turns:
        return {}
    count = sum(turn["skipped"] for turn in turns)
    note = f"of {len(turns)} rounds of unlearning, which left the model as it was"
    return {"skipped_rounds": Measured(count, len(turns), direction=Direction.LOWER, note=note)}
