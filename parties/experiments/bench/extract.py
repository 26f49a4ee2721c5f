"""What a run's metrics say of every method: the few figures that the tables read."""

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, TypeAlias

from configs.agreement import Agreement
from parties.experiments.bench.payload import expected, is_exact
from parties.experiments.bench.plan import Run
from parties.experiments.bench.rounds import rounds
from parties.horizontal.evaluation.metrics import is_retrain
from parties.vertical.evaluation.model_outputs import RETRAIN, is_independent

Values: TypeAlias = dict[str, float]  # by measure; a measure without a value is absent
Harvest: TypeAlias = Callable[[Run, Mapping[str, Any]], dict[str, Values]]  # by method

# Measures that stand among a method's figures, by the word that the tables use.
FIGURES = {
    "test": "test_accuracy",
    "remaining": "remaining_accuracy",
    "unlearning": "forgotten_accuracy",
    "mia": "mia_balanced_accuracy",
}
POISONED = {
    "backdoor": "backdoor_success",
    "backdoor-base": "backdoor_base",
    "backdoor-excess": "backdoor_excess",
}


def harvest(run: Run, metrics: Mapping[str, Any]) -> dict[str, Values]:
    """By method, what this run says of it; ``retrain`` is the mean of the independent ones.

    A poisoned run tells of its backdoor only: everything else is read from the clean one.
    """
    request, agreement = metrics["requests"][0], run.agreement
    if not isinstance(agreement, Agreement):
        raise TypeError("these are figures of vertical runs")
    wanted = POISONED if run.poisoned else FIGURES
    found = {
        record["name"]: _figures(request["figures"].get(record["name"], ()), wanted)
        for record in request["methods"]
    }
    if not run.poisoned:
        for record in request["methods"]:
            found[record["name"]] |= _costs(record, agreement, request)
        if "fedora" in found and is_exact(agreement) and request["iterations"]:
            needed = expected(agreement, request, metrics["run"]["rows"]["validation"])
            found["fedora"]["payload-excess"] = found["fedora"]["payload"] - needed
    retrains = [found.pop(name) for name in list(found) if is_independent(name)]
    return found | {RETRAIN: _mean(retrains)}


def by_method(
    metrics: Mapping[str, Any], measures: Mapping[str, tuple[str, str]]
) -> dict[str, Values]:
    """What a run of a server and clients says of every method; ``retrain``: of all Retrains.

    ``measures`` has, by the tables' word, its heading and the figure that it is.
    """
    wanted = {word: name for word, (_, name) in measures.items()}
    found = {}
    for each in metrics["requests"][0]["methods"]:
        found[each["name"]] = _figures(each["figures"], wanted)
        if each["name"] != "original":
            found[each["name"]]["seconds"] = float(each["seconds"])
    retrains = [found.pop(name) for name in list(found) if is_retrain(name)]
    return found | {RETRAIN: _mean(retrains)}


def _figures(figures: Any, wanted: Mapping[str, str]) -> Values:
    values = {each["name"]: each["value"] for each in figures}
    known = {word: values.get(name) for word, name in wanted.items()}
    return {word: float(value) for word, value in known.items() if value is not None}


def _costs(record: Mapping[str, Any], agreement: Agreement, request: Mapping[str, Any]) -> Values:
    values: Values = {}
    ratio = ((record.get("divergence") or {}).get("forgotten") or {}).get("ratio")
    if ratio is not None:
        values["js"] = float(ratio)
    cost, name = record.get("cost") or {}, record["name"]
    if name != "original" and cost.get("seconds") is not None:
        values["seconds"] = float(cost["seconds"])
        values["bytes"] = float(cost["bytes"])
        values["payload"] = float(cost["payload"])
        if count := rounds(name, agreement, request, record):
            values["round"] = values["seconds"] / count
    return values


def _mean(models: list[Values]) -> Values:
    words = {word for model in models for word in model}
    return {word: fmean(model[word] for model in models if word in model) for word in sorted(words)}
