"""What a request's comparison amounts to: the figures of the report, as plain JSON values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parties.vertical.engine.split_model import Federation
from parties.vertical.evaluation.all_metrics import suite
from parties.vertical.evaluation.audits import audits
from parties.vertical.evaluation.canary_audit import canary_audit
from parties.vertical.evaluation.compare import Comparison, Cost, Outcome
from parties.vertical.evaluation.js import known, to_retrains
from parties.vertical.evaluation.label_attack import label_attack
from parties.vertical.evaluation.model_outputs import RETRAIN, Seen
from parties.vertical.evaluation.row_groups import Ground
from parties.vertical.methods.method import ORIGINAL
from parties.vertical.requests import Chosen
from unlearning.audit.entropy import predictive_entropy
from unlearning.audit.membership import Verdict
from unlearning.objectives import forgetting_scores

BINS = 24


def nothing(federation: Federation, chosen: Chosen) -> dict[str, Any]:
    """The record of a request none of whose rows was learned: nothing ran."""
    return {
        **_named(federation, chosen),
        "method": federation.agreement.unlearning.method,
        "threshold": None,
        "iterations": [],
        "stopped": "nothing to forget: none of the requested rows was learned",
        "methods": [],
        "entropy": None,
        "label_attack": None,
        "canary_audit": None,
        "figures": {},
        "audits": None,
    }


def _named(federation: Federation, chosen: Chosen) -> dict[str, Any]:
    return {
        "name": chosen.request.name,
        "classes": list(chosen.request.classes),
        "fraction": chosen.request.fraction,
        "forgotten": len(federation.rows.forgotten),
        "retained": len(federation.rows.retain),
        "canaries": len(chosen.canaries),
    }


def record(
    federation: Federation, chosen: Chosen, where: Ground, found: Comparison
) -> dict[str, Any]:
    """The request's part of ``metrics.json``, but for what was purged."""
    facts, seen = found.delivered.facts, Seen(federation.agreement, found, where)
    return {
        **_named(federation, chosen),
        "method": found.chosen,
        "threshold": _threshold(federation, found),
        "iterations": list(facts.iterations),
        "stopped": facts.stopped,
        "methods": _methods(federation, seen, chosen),
        "entropy": _entropies(found, where),
        "label_attack": label_attack(federation, found),
        "canary_audit": canary_audit(found, where) if len(where.canaries) else None,
        "figures": suite(seen),
        "audits": audits(seen),
    }


def _methods(federation: Federation, seen: Seen, chosen: Chosen) -> list[dict[str, Any]]:
    where, found = seen.where, seen.found
    whole = chosen.request.classes if chosen.request.fraction == 1 else ()
    gone = [federation.agreement.labels.classes.index(name) for name in whole]
    full = _full_retrain(federation, found.outcome(RETRAIN).cost)
    return [
        {
            "name": outcome.name,
            "guarantee": outcome.guarantee and outcome.guarantee.value,
            "facts": outcome.facts.figures,
            "accuracy": _accuracies(outcome, where, gone),
            "membership": _membership(seen.verdicts[outcome.name]),
            "divergence": _divergences(outcome, found, where),
            "cost": None if outcome.name == ORIGINAL else _cost(outcome.cost, full),
        }
        for outcome in found.outcomes
    ]


def _accuracies(outcome: Outcome, where: Ground, gone: Sequence[int]) -> dict[str, float | None]:
    right = {
        name: (outcome.logits[name].argmax(dim=1) == truth).double()
        for name, truth in where.labels.items()
    }
    right["forgotten"] = right["forgotten"][where.plain]
    figures: dict[str, float | None] = {name: each.mean().item() for name, each in right.items()}
    remaining = ~torch.isin(where.labels["test"], torch.tensor(gone, dtype=torch.int64))
    figures["test_remaining_classes"] = right["test"][remaining].mean().item() if gone else None
    return figures


def _membership(verdict: Verdict) -> dict[str, Any]:
    return {
        "balanced_accuracy": verdict.balanced_accuracy.value,
        "auc": verdict.auc.value,
        "interval": [verdict.auc.low, verdict.auc.high],
        "members": verdict.members,
        "others": verdict.non_members,
    }


def _divergences(outcome: Outcome, found: Comparison, where: Ground) -> dict[str, Any]:
    """JS to the independent Retrains over that between them."""
    positions = {"forgotten": where.plain, "retained": None, "test": None}
    ratios = {part: to_retrains(outcome, found, part, rows) for part, rows in positions.items()}
    return {part: {"js": each.to_retrain, "ratio": known(each)} for part, each in ratios.items()}


def _full_retrain(federation: Federation, measured: Cost) -> Cost:
    """Retrain at the shipped number of epochs, without early stopping."""
    if federation.agreement.training.optimiser == "newton-cg":
        return measured  # it has no epochs, and ends at the optimum
    passives = len(federation.agreement.passive)
    rows = federation.agreement.training.epochs * len(federation.rows.retain) * passives
    if not measured.rows:  # embeddings came once, before: it crossed no row either
        return measured
    scale = rows / measured.rows
    sizes = (measured.size, measured.payload, measured.messages)
    return Cost(measured.seconds * scale, rows, *(round(each * scale) for each in sizes))


def _cost(cost: Cost, full: Cost) -> dict[str, float | None]:
    return {
        "seconds": cost.seconds,
        "rows": cost.rows,
        "bytes": cost.size,
        "payload": cost.payload,
        "messages": cost.messages,
        "seconds_of_retrain": cost.seconds / full.seconds,
        "rows_of_retrain": cost.rows / full.rows if full.rows else None,
        "bytes_of_retrain": cost.size / full.size,
    }


def _threshold(federation: Federation, found: Comparison) -> dict[str, Any]:
    weight = federation.agreement.unlearning.fedora.weight

    def score(name: str) -> float:
        logits = found.outcome(name).logits["forgotten"]
        return forgetting_scores(logits, weight).mean().item()

    threshold = found.delivered.facts.threshold
    return {
        "policy": threshold and threshold.policy,
        "gamma": threshold and threshold.gamma,
        "original_score": score(ORIGINAL),
        f"{found.chosen}_score": score(found.chosen),
        "retrain_score": score(RETRAIN),
    }


def _entropies(found: Comparison, where: Ground) -> dict[str, Any]:
    """Histograms of predictive entropy on D_u and on class-matched rows never seen."""
    classes = found.outcome(ORIGINAL).logits["test"].shape[1]
    edges = np.linspace(0, np.log(classes), BINS + 1)

    def counts(logits: Tensor) -> list[int]:
        clipped = np.clip(predictive_entropy(logits).numpy(), 0, edges[-1])
        return [int(count) for count in np.histogram(clipped, edges)[0]]

    def both(outcome: Outcome) -> dict[str, list[int]]:
        return {
            "forgotten": counts(outcome.logits["forgotten"][where.plain]),
            "heldout": counts(outcome.logits["test"][where.matched]),
        }

    models = {name: both(found.outcome(name)) for name in (ORIGINAL, found.chosen, RETRAIN)}
    return {"edges": edges.tolist(), **models}
