"""Figures of distance: how far a model's outputs and embeddings are from those of Retrains."""

from collections.abc import Callable
from statistics import fmean

from torch import Tensor
from torch.nn.functional import log_softmax

from parties.common.shared_randomness import Index
from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit.divergence import agreement, js_divergence, kl, total_variation
from unlearning.audit.figure import Direction, Measured
from unlearning.audit.representation import linear_cka


def distances(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """Means over the other Retrains; a Retrain's own are what two of them differ by."""
    rows = {"forgotten": seen.where.plain, "retained": seen.where.members, "test": None}
    others = seen.others(outcome)
    figures: dict[str, Measured] = {}
    for part, chosen in rows.items():
        ours = _log_p(outcome, part, chosen)
        theirs = [_log_p(each, part, chosen) for each in others]
        for name, measure in _MEASURES.items():
            value = fmean(measure(each, ours) for each in theirs) if theirs else None
            figures[f"{name}_{part}"] = Measured(value, len(ours), direction=_better(name))
    return figures | _cka(outcome, others)


def _kl(retrain: Tensor, ours: Tensor) -> float:
    """KL(p_R‖p_u): what Retrain's outputs would be surprised by."""
    return float(kl(retrain, ours).mean())


_MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "kl": _kl,
    "js": js_divergence,
    "tv": total_variation,
    "agreement": agreement,
}


def _better(name: str) -> Direction:
    return Direction.HIGHER if name == "agreement" else Direction.LOWER


def _log_p(outcome: Outcome, part: str, rows: Index | None) -> Tensor:
    logits = outcome.logits[part].double()
    return log_softmax(logits if rows is None else logits[rows], dim=1)


def _cka(outcome: Outcome, others: list[Outcome]) -> dict[str, Measured]:
    """Linear CKA of all parties' embeddings together."""
    figures = {}
    for part in ("forgotten", "test"):
        ours = outcome.embeddings.get(part)
        if ours is None:
            continue
        found = [linear_cka(ours, each.embeddings[part]) for each in others]
        known = [each for each in found if each is not None]
        value = fmean(known) if known else None
        figures[f"cka_{part}"] = Measured(value, len(ours), direction=Direction.HIGHER)
    return figures
