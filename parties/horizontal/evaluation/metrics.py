"""Metrics of the models of an unlearning request, each compared with the Retrain model.

Notation: D_u = the rows that must be forgotten; φ = the score of a row, which ``score_histogram``
defines.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from parties.horizontal.evaluation.outcome import ModelOutcome, Scores, client_scores
from parties.horizontal.evaluation.whole_model import BY_CLIENT_FORGOTTEN, BY_CLIENT_RETAINED
from parties.horizontal.local.local_task import RowMetrics
from parties.horizontal.local.score_histogram import add_histograms, histogram_scores, ks_distance
from parties.report.method_names import is_retrain
from unlearning.audit.intervals import auc_interval, share_interval
from unlearning.audit.metric import Direction, Measurement, Metric, metric_table
from unlearning.audit.scores import auc, tpr_at_fpr

MIN_ATTACK_ROWS = 100  # members; with fewer, the report marks the result as insufficient
ODDS_DISTANCE = "Kolmogorov-Smirnov distance of the rows' log odds of their own class"
MATCHED_ROWS = "rows of D_u without a trigger and test rows of the same client, class for class"


def request_metrics(outcomes: Sequence[ModelOutcome], leaving: set[str]) -> dict[str, list[Metric]]:
    """Return the metrics of every model; ``leaving`` are the clients with forgotten rows."""
    retrains = [each for each in outcomes if is_retrain(each.name)]
    measured = {each.name: _of(each, retrains, leaving) for each in outcomes}
    return metric_table(measured, [each.name for each in retrains])


def _of(
    outcome: ModelOutcome, retrains: Sequence[ModelOutcome], leaving: set[str]
) -> dict[str, Measurement]:
    """The measurements of one model."""
    others = [each for each in retrains if each.name != outcome.name]
    measured = {
        **_accuracies(outcome.scores, leaving),
        **_membership(outcome.scores),
        **(
            {"odds_to_retrain": odds_to_retrain(outcome, others, ODDS_DISTANCE)} if retrains else {}
        ),
        **_conflicts(outcome),
        **_skipped(outcome),
    }
    for stage, scores in outcome.stages.items():
        measured |= {f"{stage}_{name}": e for name, e in _accuracies(scores, leaving).items()}
    return measured


def _accuracies(scores: Scores, leaving: set[str]) -> dict[str, Measurement]:
    """Accuracies on test rows of the remaining clients, on D_u and on rows with the trigger.

    A client that left by an earlier request has no training rows and does not remain.
    """
    remaining = {name for name, each in scores["retained"].items() if each.rows}
    test = client_scores(scores["test"], remaining)
    single, validation = (_single(scores[kind], remaining) for kind in ("test", "validation"))
    return {
        "test_accuracy": _share(test, Direction.HIGHER),
        "client_accuracy": _over(single, fmean, "unweighted mean over the remaining clients"),
        "validation_accuracy": _over(validation, fmean, "for the choice of hyper-parameters"),
        "worst_client": _over(single, min, "the lowest of the remaining clients"),
        "best_client": _over(single, max, "the highest of the remaining clients"),
        "leaving_test_accuracy": _share(client_scores(scores["test"], leaving)),
        "forgotten_accuracy": _share(client_scores(scores["forgotten"])),
        "retained_accuracy": _share(client_scores(scores["retained"]), Direction.HIGHER),
        # ASR of FedOSD (paper 001): the leaving client's own training rows with the trigger.
        "planted": _share(client_scores(scores["planted"], leaving)),
        "stamped": _share(client_scores(scores["stamped"])),
        **_whole_model(scores),
    }


def _whole_model(scores: Scores) -> dict[str, Measurement]:
    """Accuracy of one remaining client's whole model on D_u and on its own training rows.

    These are the columns of Mimir (paper 003), Table III.
    """
    if BY_CLIENT_FORGOTTEN not in scores:
        return {}
    return {
        BY_CLIENT_FORGOTTEN: _share(client_scores(scores[BY_CLIENT_FORGOTTEN])),
        BY_CLIENT_RETAINED: _share(client_scores(scores[BY_CLIENT_RETAINED]), Direction.HIGHER),
    }


def _single(scores: Mapping[str, RowMetrics], remaining: set[str]) -> list[float]:
    """The accuracy of each remaining client."""
    return [each.correct / each.rows for each in client_scores(scores, remaining)]


def _share(some: Sequence[RowMetrics], direction: Direction = Direction.RETRAIN) -> Measurement:
    rows, correct = sum(each.rows for each in some), sum(each.correct for each in some)
    if not rows:
        return Measurement(None, 0, direction=direction, note="no client has such a row")
    return Measurement(correct / rows, rows, share_interval(correct, rows), direction)


def _over(
    single: Sequence[float], of: Callable[[Sequence[float]], float], note: str
) -> Measurement:
    value = of(single) if single else None
    return Measurement(value, len(single), direction=Direction.HIGHER, note=note)


def _membership(scores: Scores) -> dict[str, Measurement]:
    """Membership inference attack by φ on rows without a trigger.

    Members are rows of D_u; non-members are test rows of the same clients, equally many of each
    class.
    """
    members = histogram_scores(_histogram(client_scores(scores["members"])))
    others = histogram_scores(_histogram(client_scores(scores["non_members"])))
    n = min(len(members), len(others))
    if not n:
        nothing = Measurement(None, 0, note=f"no {MATCHED_ROWS}")
        return {"membership_auc": nothing, "membership_tpr_at_1_fpr": nothing}
    value = auc(members, others)
    interval = auc_interval(value, len(members), len(others))
    found = tpr_at_fpr(members, others)
    return {
        "membership_auc": Measurement(value, n, interval, least=MIN_ATTACK_ROWS, note=MATCHED_ROWS),
        "membership_tpr_at_1_fpr": Measurement(found, n, least=MIN_ATTACK_ROWS, note=MATCHED_ROWS),
    }


def _histogram(some: Sequence[RowMetrics]) -> tuple[int, ...]:
    return add_histograms(each.histogram for each in some)


def odds_to_retrain(
    outcome: ModelOutcome, others: Sequence[ModelOutcome], note: str = ""
) -> Measurement:
    """Return the mean distance of φ on D_u to that of the Retrain models ``others``."""
    rows = client_scores(outcome.scores["forgotten"])
    theirs = [_histogram(client_scores(each.scores["forgotten"])) for each in others]
    known = [d for d in (ks_distance(_histogram(rows), each) for each in theirs) if d is not None]
    value = fmean(known) if known else None
    return Measurement(value, sum(e.rows for e in rows), direction=Direction.LOWER, note=note)


def _conflicts(outcome: ModelOutcome) -> Mapping[str, Measurement]:
    """Number of remaining clients that a step of unlearning conflicts with, mean over the rounds.

    This is NC of FedOSD (paper 001), Table 3.
    """
    rounds = [each for each in outcome.rounds if each["conflicts"] is not None]
    if not rounds:
        return {}
    mean, largest = fmean(r["conflicts"] for r in rounds), max(r["cosine"] for r in rounds)
    return {
        "conflicts": Measurement(mean, len(rounds), direction=Direction.LOWER),
        "largest_cosine": Measurement(largest, len(rounds), direction=Direction.LOWER),
    }


def _skipped(outcome: ModelOutcome) -> Mapping[str, Measurement]:
    """Number of rounds of unlearning that did not change the model.

    A round of FedOSD does not change it if g_u lies in the span of the other gradients, a round of
    FedGKT if no image passes the gate.
    """
    rounds = [each for each in outcome.rounds if each["stage"] == "unlearn"]
    if not rounds:
        return {}
    count = sum(each["skipped"] for each in rounds)
    note = f"of {len(rounds)} rounds of unlearning; a skipped round does not change the model"
    return {"skipped_rounds": Measurement(count, len(rounds), direction=Direction.LOWER, note=note)}
