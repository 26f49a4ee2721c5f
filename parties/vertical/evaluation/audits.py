"""Audits of a request: completeness, parameters, relearning, backdoor control, reconstruction."""

from typing import Any

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.evaluation.attack_metrics import INVALID, attack_metrics, backdoor_metrics
from parties.vertical.evaluation.model_outputs import ModelOutputs
from parties.vertical.evaluation.output_metrics import accuracy_metric
from parties.vertical.methods.method import PAIRED
from unlearning.audit.membership import Outputs
from unlearning.audit.metric import Direction, Measurement, Status, compare_with_retrains
from unlearning.audit.relearning import anamnesis_index


def request_audits(models: ModelOutputs) -> dict[str, Any]:
    """Results of all audits as JSON values; the result is None for an audit that did not run."""
    return {
        "completeness": _completeness(models),
        "parameters": _parameters(models),
        "relearn": _relearn(models),
        "backdoor": _backdoor_control(models),
        "reconstruction": _reconstruction(models),
    }


def _completeness(models: ModelOutputs) -> dict[str, list[dict[str, Any]]] | None:
    """Metrics on D_u of the delivered model with the original parameters at one party.

    If they do not change at a party, its parameters forgot nothing, or contained nothing to forget.
    """
    exchanged = models.comparison.extra_audits.exchanged
    if not exchanged:
        return None
    retrains = [_knowledge(models, each.logits) for each in models.retrains]

    def at_retrains(name: str) -> list[float] | None:
        values = [value for each in retrains if (value := each[name].value) is not None]
        return values if retrains else None

    return {
        party: [
            compare_with_retrains(name, measured, at_retrains(name)).plain()
            for name, measured in _knowledge(models, logits).items()
        ]
        for party, logits in exchanged.items()
    }


def _knowledge(models: ModelOutputs, logits: dict[str, Any]) -> dict[str, Measurement]:
    rows, labels = models.row_groups.forgotten, models.row_groups.labels["forgotten"]
    on_forgotten = Outputs(logits["forgotten"][rows], labels[rows])
    attack = attack_metrics("mia", models.attack_result(models.attack, logits))
    return {
        "forgotten_accuracy": accuracy_metric(on_forgotten, Direction.RETRAIN),
        "mia_auc": attack["mia_auc"],
    }


def _parameters(models: ModelOutputs) -> dict[str, dict[str, float | None]]:
    """For each party: ‖θ_u - θ_R‖ from the paired Retrain, ‖θ_o - θ_R‖, and their ratio."""
    distances = models.comparison.extra_audits.distances
    before, after = distances.get(ORIGINAL, {}), distances.get(models.comparison.chosen, {})
    return {
        party: {
            "unlearned": after[party],
            "original": before[party],
            "ratio": _ratio(after[party], before[party]),
        }
        for party in before
    }


def _ratio(after: float | None, before: float | None) -> float | None:
    return after / before if before and after is not None else None


def _relearn(models: ModelOutputs) -> dict[str, Any] | None:
    steps = models.comparison.extra_audits.relearned
    if not steps:
        return None
    ratio = anamnesis_index(steps[models.comparison.chosen], steps[PAIRED])
    cap = models.agreement.evaluation.relearn
    return {"steps": steps, "cap": cap and cap.max_steps, "ratio": ratio}


def _reconstruction(models: ModelOutputs) -> dict[str, dict[str, dict[str, float]]] | None:
    """For each party and one forgotten row: how much its first layer's change reveals."""
    reports = models.comparison.extra_audits.reconstruction
    if not reports:
        return None
    compared = {"unlearned": models.comparison.chosen} | (
        {"retrain": PAIRED} if models.retrains else {}
    )
    return {
        party: {side: reports[slot][party] for side, slot in compared.items()}
        for party in reports[models.comparison.chosen]
    }


def _backdoor_control(models: ModelOutputs) -> dict[str, Any] | None:
    """The positive control: the original model must have learned the trigger."""
    plan = models.comparison.request.backdoor
    if plan is None:
        return None
    figures = backdoor_metrics(models, models.original)
    valid = figures["backdoor_success"].note != INVALID
    return {
        "party": plan.party,
        "target": plan.target,
        "original_success": figures["backdoor_success"].value,
        "status": Status.OK.value if valid else "invalid",
    }
