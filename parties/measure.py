"""What a request's comparison amounts to: the figures of the report, as plain JSON values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from parties.compare import Comparison, Cost, Outcome
from parties.federation import Federation
from parties.ground import Ground
from parties.methods.method import ORIGINAL
from parties.report.comparison import label
from parties.requests import Chosen
from parties.schedule import Index
from unlearning.audit.canaries import loss_auc
from unlearning.audit.divergence import JsRatio, js_divergence, js_ratio
from unlearning.audit.entropy import predictive_entropy
from unlearning.audit.leakage import leakage
from unlearning.audit.membership import Outputs, class_matched, fit_attack, score_attack
from unlearning.objectives import forgetting_scores

BINS = 24
RETRAIN = "retrain"
ROUNDING = 1e-12  # of a divergence between equal outputs


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
    facts = found.delivered.facts
    return {
        **_named(federation, chosen),
        "method": found.chosen,
        "threshold": _threshold(federation, found),
        "iterations": list(facts.iterations),
        "stopped": facts.stopped,
        "methods": _methods(federation, where, found, chosen),
        "entropy": _entropies(found, where),
        "label_attack": _label_attack(federation, found),
        "canary_audit": _canary_audit(found, where) if len(where.canaries) else None,
    }


def _methods(
    federation: Federation, where: Ground, found: Comparison, chosen: Chosen
) -> list[dict[str, Any]]:
    attack = _attack(found.outcome(ORIGINAL), where)
    whole = chosen.request.classes if chosen.request.fraction == 1 else ()
    gone = [federation.agreement.labels.classes.index(name) for name in whole]
    full = _full_retrain(federation, found.outcome(RETRAIN).cost)
    return [
        {
            "name": outcome.name,
            "guarantee": outcome.guarantee and outcome.guarantee.value,
            "facts": outcome.facts.figures,
            "accuracy": _accuracies(outcome, where, gone),
            "membership": _membership(attack, outcome, where),
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


def _attack(original: Outcome, where: Ground) -> Any:
    """The attack, fitted on the original's outputs for D_r and the first half of the test rows."""
    return fit_attack(
        _outputs(original, where, "retained", where.members),
        _outputs(original, where, "test", where.taught),
    )


def _membership(attack: Any, outcome: Outcome, where: Ground) -> dict[str, Any]:
    verdict = score_attack(
        attack,
        _outputs(outcome, where, "forgotten", where.plain),
        _outputs(outcome, where, "test", where.matched),
        where.generator,
    )
    return {
        "balanced_accuracy": verdict.balanced_accuracy.value,
        "auc": verdict.auc.value,
        "interval": [verdict.auc.low, verdict.auc.high],
        "members": verdict.members,
        "others": verdict.non_members,
    }


def _outputs(outcome: Outcome, where: Ground, part: str, positions: Index) -> Outputs:
    return Outputs(outcome.logits[part][positions], where.labels[part][positions])


def _divergences(outcome: Outcome, found: Comparison, where: Ground) -> dict[str, Any]:
    """JS to the independent Retrains over that between them."""
    positions = {"forgotten": where.plain, "retained": None, "test": None}
    ratios = {part: _ratio(outcome, found, part, rows) for part, rows in positions.items()}
    return {part: {"js": each.to_retrain, "ratio": _known(each)} for part, each in ratios.items()}


def _known(ratio: JsRatio) -> float | None:
    """The ratio; None where Retrains differ by rounding at most, so that there is no unit."""
    return ratio.value if ratio.between_retrains > ROUNDING else None


def _ratio(outcome: Outcome, found: Comparison, part: str, rows: Index | None) -> JsRatio:
    def read(each: Outcome) -> Tensor:
        logits = each.logits[part]
        return log_softmax(logits if rows is None else logits[rows], dim=1)

    retrains = [each for each in found.outcomes if _independent(each.name)]
    ratio = js_ratio(read(outcome), [read(each) for each in retrains])
    if outcome not in retrains:
        return ratio
    others = [js_divergence(read(outcome), read(each)) for each in retrains if each != outcome]
    return JsRatio(sum(others) / len(others), ratio.between_retrains)


def _independent(name: str) -> bool:
    return name.startswith(RETRAIN) and not name.endswith("paired")


def _full_retrain(federation: Federation, measured: Cost) -> Cost:
    """Retrain at the shipped number of epochs, without early stopping."""
    if federation.agreement.training.optimiser == "newton-cg":
        return measured  # it has no epochs, and ends at the optimum
    passives = len(federation.agreement.passive)
    rows = federation.agreement.training.epochs * len(federation.rows.retain) * passives
    scale = rows / measured.rows
    return Cost(measured.seconds * scale, rows, round(measured.size * scale))


def _cost(cost: Cost, full: Cost) -> dict[str, float]:
    return {
        "seconds": cost.seconds,
        "rows": cost.rows,
        "bytes": cost.size,
        "seconds_of_retrain": cost.seconds / full.seconds,
        "rows_of_retrain": cost.rows / full.rows,
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


def _label_attack(federation: Federation, found: Comparison) -> dict[str, Any] | None:
    """What one known label and the first unlearning gradients tell a passive party."""
    answered = found.delivered.facts.answered
    if answered is None or not answered.gradients:
        return None
    labels = federation.labels[answered.rows]
    if len(torch.unique(labels)) < 2:
        return None
    each = [leakage(gradient, labels, known=0) for gradient in answered.gradients.values()]
    worst = max(each, key=lambda one: abs(one.cosine - 0.5))
    return {
        "cosine_auc": worst.cosine,
        "norm_auc": max((one.norm for one in each), key=lambda auc: abs(auc - 0.5)),
        "known_labels": 1,
        "rows": worst.rows,
    }


def _canary_audit(found: Comparison, where: Ground) -> dict[str, Any]:
    """Loss of the planted rows against held-out rows with labels made wrong alike."""
    classes = found.outcome(ORIGINAL).logits["test"].shape[1]
    wrong = (where.labels["test"] + 1) % classes

    def auc(name: str) -> float:
        outcome = found.outcome(name)
        truth = where.labels["forgotten"][where.canaries]
        generator = where.generator
        matched = class_matched(truth, wrong, generator)
        return loss_auc(
            Outputs(outcome.logits["forgotten"][where.canaries], truth),
            Outputs(outcome.logits["test"][matched], wrong[matched]),
        )

    def ratio(name: str) -> JsRatio:
        return _ratio(found.outcome(name), found, "forgotten", where.canaries)

    ratios = {name: ratio(name) for name in (ORIGINAL, found.chosen)}
    audit = {
        "count": len(where.canaries),
        "between_retrains": ratios[ORIGINAL].between_retrains,
        **{f"{name}_auc": auc(name) for name in (ORIGINAL, found.chosen, RETRAIN)},
        **{f"{name}_ratio": _known(each) for name, each in ratios.items()},
        **{f"{name}_js": each.to_retrain for name, each in ratios.items()},
    }
    return {**audit, "verdict": _verdict(audit, found.chosen)}


def _verdict(audit: dict[str, Any], chosen: str) -> str:
    before, after = audit["original_ratio"], audit[f"{chosen}_ratio"]
    if before is None:
        return "the Retrains do not differ on the canaries: there is no unit to measure in"
    if before < 2:
        return "the original is too near to Retrain on the canaries: this run proves nothing"
    word = "at most" if after <= before / 2 else "more than"
    return f"{label(chosen)}'s distance to Retrain on the canaries is {word} half of the original's"
