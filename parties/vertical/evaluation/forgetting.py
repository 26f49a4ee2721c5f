"""Figures of forgetting: how a model treats D_u, as gaps to Retrain, and whether a scar shows."""

from statistics import fmean, stdev

from torch import Tensor

from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from parties.vertical.evaluation.utility import mean_loss, share
from unlearning.audit.entropy import predictive_entropy, streisand
from unlearning.audit.figure import Direction, Measured
from unlearning.audit.forgetting import confidence, retrain_relative
from unlearning.audit.intervals import of_auc, of_mean

_WAY = ("forgotten_accuracy", "forgotten_loss", "forgotten_entropy", "forgotten_confidence")


def forgetting(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """How the model treats D_u."""
    figures = _simple(seen, outcome)
    others = [_simple(seen, each) for each in seen.others(outcome)]
    original = _simple(seen, seen.original)
    ways = {
        f"{name}_toward_retrain": _way(
            figures[name].value, original[name].value, [each[name].value for each in others]
        )
        for name in _WAY
    }
    return figures | ways | _scar(seen, outcome)


def _simple(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    outputs = seen.outputs(outcome, "forgotten", seen.where.plain)
    return {
        "forgotten_accuracy": share(outputs, Direction.RETRAIN),
        "forgotten_loss": mean_loss(outputs, Direction.RETRAIN),
        "forgotten_entropy": _mean(predictive_entropy(outputs.logits)),
        "forgotten_confidence": _mean(confidence(outputs.logits)),
    }


def _mean(values: Tensor) -> Measured:
    return Measured(float(values.mean()), len(values), of_mean(values.double().numpy()))


def _way(value: float | None, original: float | None, retrains: list[float | None]) -> Measured:
    """1 at Retrain, 0 at the original; n counts Retrains."""
    known = [each for each in retrains if each is not None]
    if value is None or original is None or len(known) < 2:
        return Measured(None, len(known), note="fewer than two other Retrains")
    found = retrain_relative(value, fmean(known), original, stdev(known))
    note = "" if found is not None else "the original is within 2 sd of Retrain"
    return Measured(found, len(known), note=note)


def _scar(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """The Streisand check: n counts rows; the flag is 1 where a scar shows."""
    others, where = seen.others(outcome), seen.where
    if len(others) < 2:
        nothing = Measured(None, 0, note="fewer than two other Retrains")
        return {"entropy_auc": nothing, "streisand": nothing}
    logits = outcome.logits["forgotten"][where.plain]
    unseen = outcome.logits["test"][where.matched]
    found = streisand(logits, unseen, [each.logits["forgotten"][where.plain] for each in others])
    interval = of_auc(found.auc, len(logits), len(unseen))
    return {
        "entropy_auc": Measured(found.auc, len(logits), interval),
        "streisand": Measured(float(found.flagged), len(logits), direction=Direction.LOWER),
    }
