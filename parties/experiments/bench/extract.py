"""Extraction of table figures from the metrics record of a vertical run."""

from collections.abc import Mapping
from math import ceil
from statistics import fmean
from typing import Any

from configs.agreement import VerticalAgreement
from parties.experiments.bench.plan import PlannedRun, Values
from parties.report.method_names import RETRAIN, is_independent_retrain, is_retrain
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.ico_like import IcoLikeSettings
from parties.vertical.methods.retrain_local import RetrainLocalMethod

# Measures of the tables by name, and the figures of a method with their values.
CLEAN_METRICS = {
    "test": "test_accuracy",
    "remaining": "remaining_accuracy",
    "unlearning": "forgotten_accuracy",
    "mia": "mia_balanced_accuracy",
}
BACKDOOR_METRICS = {
    "backdoor": "backdoor_success",
    "backdoor-base": "backdoor_base",
    "backdoor-excess": "backdoor_excess",
}

# Measure of a run whose method gave no valid model, without and with a backdoor: its figures are
# those of the model that was restored.
RESTORED = ("restored", "restored-backdoor")


def extract_vertical(run: PlannedRun, metrics: Mapping[str, Any]) -> dict[str, Values]:
    """Return each method's values in a vertical run; ``retrain`` has means over Retrain models.

    A poisoned run (a run with a backdoor) has only the values of the backdoor audit; a clean run
    has all other values.

    Raises:
        TypeError: ``run`` is not a vertical run.
    """
    request, agreement = metrics["requests"][0], run.agreement
    if not isinstance(agreement, VerticalAgreement):
        raise TypeError("the run is not vertical; call extract_federated for this run")
    wanted = BACKDOOR_METRICS if run.poisoned else CLEAN_METRICS
    found = {each["name"]: _figures(each["figures"], wanted) for each in request["methods"]}
    for record in request["methods"]:
        if record.get("diverged"):
            found[record["name"]][RESTORED[run.poisoned]] = 1.0
    if not run.poisoned:
        for record in request["methods"]:
            found[record["name"]] |= _costs(record, agreement, request)
        if "fedora" in found and payload_formula_applies(agreement) and _fedora_steps(request):
            needed = expected_fedora_bytes(agreement, request, metrics["run"]["rows"]["validation"])
            found["fedora"]["payload-excess"] = found["fedora"]["payload"] - needed
    retrains = [found.pop(name) for name in list(found) if is_independent_retrain(name)]
    return found | {RETRAIN: _mean(retrains)}


def extract_federated(
    metrics: Mapping[str, Any], measures: Mapping[str, tuple[str, str]]
) -> dict[str, Values]:
    """Return each method's values in a federated run; ``retrain`` has means over Retrain models.

    ``measures`` maps a measure to its table heading and to the measure's name in the record.
    """
    wanted = {word: name for word, (_, name) in measures.items()}
    found = {}
    for each in metrics["requests"][0]["methods"]:
        found[each["name"]] = _figures(each["figures"], wanted)
        if each["cost"] is not None:
            found[each["name"]]["seconds"] = float(each["cost"]["seconds"])
    retrains = [found.pop(name) for name in list(found) if is_retrain(name)]
    return found | {RETRAIN: _mean(retrains)}


def _figures(figures: Any, wanted: Mapping[str, str]) -> Values:
    values = {each["name"]: each["value"] for each in figures}
    known = {word: values.get(name) for word, name in wanted.items()}
    return {word: float(value) for word, value in known.items() if value is not None}


def _costs(
    record: Mapping[str, Any], agreement: VerticalAgreement, request: Mapping[str, Any]
) -> Values:
    values: Values = {}
    ratio = ((record.get("divergence") or {}).get("forgotten") or {}).get("ratio")
    if ratio is not None:
        values["js"] = float(ratio)
    cost, name = record.get("cost") or {}, record["name"]
    if name != "original" and cost.get("seconds") is not None:
        values["seconds"] = float(cost["seconds"])
        values["bytes"] = float(cost["size"])
        values["payload"] = float(cost["payload"])
        if count := count_rounds(name, agreement, request, record):
            values["round"] = values["seconds"] / count
    return values


def _mean(models: list[Values]) -> Values:
    words = {word for model in models for word in model}
    return {word: fmean(model[word] for model in models if word in model) for word in sorted(words)}


BYTES = {"float32": 4, "float64": 8}


def payload_formula_applies(agreement: VerticalAgreement) -> bool:
    """Return whether ``expected_fedora_bytes`` applies to runs with this agreement."""
    plan = agreement.unlearning.of(FedoraSettings)
    return plan.policy == "uniform" and plan.start == "original" and not plan.calibrate


def expected_fedora_bytes(
    agreement: VerticalAgreement, request: Mapping[str, Any], validation: int
) -> int:
    """Return the size in bytes of all embeddings and gradients that one FedORA run transfers.

    In an outer iteration each passive party sends embeddings and receives gradients: together
    2 · 4 · d_h (n_u + R B) bytes (FedORA, Table II). The last batch of an epoch may be smaller than
    B. An evaluation of the validation rows transfers 4 · d_h n_v bytes per passive party; the first
    evaluation takes place before the first iteration.
    """
    plan, steps = agreement.unlearning.of(FedoraSettings), _fedora_steps(request)
    wide = sum(agreement.parties[name].width or 0 for name in agreement.passive)
    number = BYTES[agreement.dtype] * wide
    size, retained = plan.batch or agreement.training.batch, int(request["rows"]["retained"])
    share = plan.retain_share or 0.0
    batches, asked = ceil(retained / size), len(steps) * ceil(share * retained / size)
    learned = sum(min(size, retained - at % batches * size) for at in range(asked))
    forgotten = int(request["rows"]["forgotten"])
    if plan.score_rows is not None:
        forgotten = min(forgotten, plan.score_rows)
    evaluations: int = 1 + sum(step["validation_accuracy"] is not None for step in steps)
    total: int = number * (2 * (len(steps) * forgotten + learned) + evaluations * validation)
    return total


def _fedora_steps(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the iterations of FedORA; empty if FedORA did not run."""
    return next((each["steps"] for each in request["methods"] if each["name"] == "fedora"), [])


def count_rounds(
    name: str,
    agreement: VerticalAgreement,
    request: Mapping[str, Any],
    record: Mapping[str, Any],
) -> float | None:
    """Return the number of unlearning rounds of method ``name``; None if the method has no rounds.

    A round is one pass over the rows that the method uses: an epoch over D_r for Retrain and
    fine-tuning, a step over all of D_u for gradient ascent, one outer iteration of FedORA, an epoch
    over the fixed subset of D_r for the method 'ico-like', and one epoch of CVFU. This definition
    of a round is vfl's own, because the paper gives none.
    """
    done = record["details"].get("losses") or ()
    epochs = record["details"].get("epochs") or ()
    plan = agreement.unlearning.of(IcoLikeSettings)
    portion = plan.share * request["rows"]["retained"]
    counts: dict[str, float] = {
        "fedora": len(_fedora_steps(request)),
        "gradient-ascent": len(done),
        "ico-like": plan.steps / ceil(portion / agreement.training.batch),
        "cvfu": len(done),
    }
    whole = name.startswith("retrain") and name != RetrainLocalMethod.name
    if whole and agreement.training.start == "random":  # as if it had not stopped early
        return float(agreement.training.epochs)
    count = counts.get(name)
    count = len(epochs) if count is None else count
    return float(count) or None
