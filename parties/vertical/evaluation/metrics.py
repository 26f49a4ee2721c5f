"""The record of one request: all metrics of all models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from models.targets import NumberTarget, Target, standard_deviation
from parties.report.method_names import RETRAIN, is_independent_retrain, method_label
from parties.report.record import (
    Audits,
    Divergence,
    Figure,
    JsonObject,
    Membership,
    MethodCost,
    MethodRecord,
    Request,
    RequestedRows,
    Step,
    ThresholdRecord,
)
from parties.requests.driver import Cost
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.requests import RequestRows
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.attack_metrics import (
    FEW,
    backdoor_metrics,
    membership_metrics,
    party_view_metrics,
    update_difference_metrics,
)
from parties.vertical.evaluation.audits import request_audits
from parties.vertical.evaluation.canary_audit import canary_audit, canary_metrics
from parties.vertical.evaluation.label_attack import label_attack
from parties.vertical.evaluation.model_outputs import (
    ModelOutputs,
    ratio_or_none,
    ratio_to_retrains,
)
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.output_metrics import (
    distance_metrics,
    embedding_metrics,
    energy_metrics,
    forgetting_metrics,
    two_sample_metrics,
    utility_metrics,
)
from parties.vertical.evaluation.quick_audit import loss_attack
from parties.vertical.evaluation.row_groups import RowGroups
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.registry import METHODS
from unlearning.audit.divergence import label_distance, number_distance
from unlearning.audit.forgetting import predictive_entropy
from unlearning.audit.membership import MembershipResult
from unlearning.audit.metric import Direction, Measurement, Metric, metric_table
from unlearning.audit.targets import labels_figures, number_figures
from unlearning.objectives import forgetting_scores
from unlearning.receipts.receipt import AuditLevel

BINS = 24


def empty_request_record(split_model: SplitModel, chosen: RequestRows) -> JsonObject:
    """The record of a request that contains no training row, as JSON values.

    No unlearning method ran for such a request.
    """
    return Request(
        name=chosen.request.name,
        rows=_rows(split_model, chosen),
        methods=(),
        chosen=split_model.agreement.unlearning.method,
        skipped="nothing to forget: no requested row is a training row",
    ).plain()


def _rows(split_model: SplitModel, chosen: RequestRows) -> RequestedRows:
    return RequestedRows(
        forgotten=len(split_model.rows.forgotten),
        retained=len(split_model.rows.retain),
        canaries=len(chosen.canaries),
        corrects=chosen.request.corrects,
        classes=tuple(chosen.request.classes),
        fraction=chosen.request.fraction,
    )


def request_record(
    split_model: SplitModel, chosen: RequestRows, groups: RowGroups, comparison: Comparison
) -> JsonObject:
    """The record of a request as JSON values; the caller adds the results of the purge.

    Audits that need classes are left out if the labels are not one of several classes.
    """
    models = ModelOutputs(split_model.agreement, comparison, groups)
    single = split_model.agreement.labels.task == "classification"
    methods = (
        _methods(split_model, models, chosen) if single else _other_methods(split_model, models)
    )
    of_classes = _class_audits(split_model, models) if single else {}
    return Request(
        name=chosen.request.name,
        rows=_rows(split_model, chosen),
        methods=tuple(methods),
        chosen=comparison.chosen,
        audit_level=AuditLevel.FULL if models.retrains else AuditLevel.QUICK,
        threshold=_threshold(split_model, comparison) if single else None,
        audits=Audits(**request_audits(models), **of_classes),
    ).plain()


def _class_audits(split_model: SplitModel, models: ModelOutputs) -> JsonObject:
    """Results of the audits that need labels of one of several classes."""
    comparison, groups = models.comparison, models.row_groups
    title = METHODS[comparison.chosen].label.title
    return {
        "entropy": _entropies(comparison, groups),
        "label_attack": label_attack(split_model, comparison),
        "canaries": canary_audit(models, title) if len(groups.canaries) else None,
    }


def _methods(
    split_model: SplitModel, models: ModelOutputs, chosen: RequestRows
) -> list[MethodRecord]:
    groups, comparison = models.row_groups, models.comparison
    whole = chosen.request.fraction == 1 and not chosen.request.corrects
    removed_classes = chosen.request.classes if whole else ()
    gone = [split_model.agreement.labels.classes.index(name) for name in removed_classes]
    retrains = models.retrains
    full = full_cost(split_model.agreement, retrains[0]) if retrains else None
    figures = all_metrics(models)
    return [
        _method_record(outcome, figures[outcome.name], full).model_copy(
            update={
                "accuracy": _accuracies(outcome, groups, gone),
                "membership": _membership(models.membership_results[outcome.name]),
                "divergence": _divergences(outcome, comparison, groups) if retrains else None,
            }
        )
        for outcome in comparison.outcomes
    ]


def _method_record(
    outcome: MethodOutcome, figures: Sequence[Metric], full: Cost | None
) -> MethodRecord:
    """The record of one model with its ``figures``; ``full`` is the cost of a Retrain."""
    own = METHODS[outcome.name].label if outcome.name in METHODS else None
    return MethodRecord(
        name=outcome.name,
        **method_label(outcome.name, outcome.result.label or own)._asdict(),
        guarantee=outcome.guarantee and outcome.guarantee.value,
        cost=None if outcome.name == ORIGINAL else _cost(outcome.cost, full),
        figures=tuple(Figure(**each.plain()) for each in figures),
        steps=tuple(_step(each) for each in outcome.result.iterations),
        stopped=outcome.result.stopped,
        diverged=outcome.result.restored,
        details=outcome.result.figures,
    )


CLASSES_ONLY = "measured only for labels that are one of several classes"
_CLASS_METRICS = ("mia_auc", "entropy_auc", "update_auc_unseen")
_CLASS_COMPARISONS = ("streisand", "update_auc_retained", "ks_p", "c2st_p", "agreement_forgotten")
_OF_TEST = dict.fromkeys(("r2", "accuracy", "auc_macro", "auc_micro"), Direction.HIGHER)
_OF_TEST |= dict.fromkeys(("mae", "rmse", "hamming_loss"), Direction.LOWER)
_OF_ROWS = ("mae", "hamming_loss")  # the other figures need many rows
_COMPARED = ("forgotten", "retained", "test")  # row sets on which outputs are compared


def _other_methods(split_model: SplitModel, models: ModelOutputs) -> list[MethodRecord]:
    """The records of all models if the labels are not one of several classes."""
    outcomes, retrains = models.comparison.outcomes, models.retrains
    full = full_cost(split_model.agreement, retrains[0]) if retrains else None
    distances = {
        each.name: _other_distances(split_model, models, each) if retrains else None
        for each in outcomes
    }
    measured = {
        each.name: _other_metrics(split_model, models, each, distances[each.name])
        for each in outcomes
    }
    figures = metric_table(measured, [each.name for each in retrains])
    return [
        _method_record(each, figures[each.name], full).model_copy(
            update={"divergence": distances[each.name]}
        )
        for each in outcomes
    ]


def _other_distances(
    split_model: SplitModel, models: ModelOutputs, outcome: MethodOutcome
) -> dict[str, Divergence]:
    """Distances of a model that predicts a number, or several labels, from the Retrain models.

    A row set without a row has none.
    """
    number = isinstance(split_model.target, NumberTarget)
    distance, unit = (number_distance, _spread(split_model)) if number else (label_distance, 1.0)
    found = {}
    for part in _COMPARED:
        if not len(models.row_groups.labels[part]):
            continue
        ratio = ratio_to_retrains(outcome, models.comparison, part, None, distance)
        apart = ratio.to_retrain / unit
        found[part] = Divergence(
            js=None if number else apart,
            rms=apart if number else None,
            ratio=ratio_or_none(ratio),
        )
    return found


def _spread(split_model: SplitModel) -> float:
    """The standard deviation of the number in D_r; 1 if it is the same in all rows."""
    labels = split_model.labels[split_model.rows.retain].double()
    return standard_deviation(labels) or 1.0


def _other_metrics(
    split_model: SplitModel,
    models: ModelOutputs,
    outcome: MethodOutcome,
    distances: dict[str, Divergence] | None,
) -> dict[str, Measurement]:
    """Metrics of a model that predicts a number or several binary labels, by name.

    The membership attack takes rows with a small loss for forgotten rows; the others are test rows.
    ``distances`` are those from the Retrain models; None without Retrains.
    """
    target = split_model.target
    found = _other_utility(models, outcome, target)
    test, forgotten = (models.outputs(outcome, part) for part in ("test", "forgotten"))
    attack, rows = loss_attack(target, forgotten, test), len(forgotten.labels)
    found["loss_auc"] = (
        Measurement(None, rows, note="no test row")
        if attack is None
        else Measurement(attack.value, rows, (attack.low, attack.high), least=FEW)
    )
    absent: tuple[str, ...] = _CLASS_METRICS
    if distances is not None:
        absent += _CLASS_COMPARISONS
        name = "rms" if isinstance(target, NumberTarget) else "js"
        found |= {
            f"{name}_{part}": Measurement(
                getattr(each, name), len(outcome.logits[part]), direction=Direction.LOWER
            )
            for part, each in distances.items()
        }
        unit = _spread(split_model) if isinstance(target, NumberTarget) else 1.0
        found |= embedding_metrics(outcome, models.other_retrains(outcome))
        found |= energy_metrics(models, outcome, lambda each: target.prediction(each) / unit)
    return found | {name: Measurement(None, 0, note=CLASSES_ONLY) for name in absent}


def _other_utility(
    models: ModelOutputs, outcome: MethodOutcome, target: Target
) -> dict[str, Measurement]:
    """Errors of a model on test rows, on D_u and on D_r."""
    figures = number_figures if isinstance(target, NumberTarget) else labels_figures
    test = models.outputs(outcome, "test")
    found = {
        f"test_{name}": Measurement(value, len(test.labels), direction=_OF_TEST[name])
        for name, value in figures(test).values.items()
    }
    for part, direction in (("forgotten", Direction.RETRAIN), ("retained", Direction.LOWER)):
        outputs = models.outputs(outcome, part)
        found |= {
            f"{part}_{name}": Measurement(value, len(outputs.labels), direction=direction)
            for name, value in figures(outputs).values.items()
            if name in _OF_ROWS
        }
    return found


def _step(iteration: JsonObject) -> Step:
    """The record of an iteration of FedORA."""
    names = {"iteration": "number", "forgetting": "score", "retain_loss": "loss"}
    return Step(**{names.get(name, name): value for name, value in iteration.items()})


def _accuracies(
    outcome: MethodOutcome, groups: RowGroups, gone: Sequence[int]
) -> dict[str, float | None]:
    correct = {
        name: (outcome.logits[name].argmax(dim=1) == truth).double()
        for name, truth in groups.labels.items()
    }
    correct["forgotten"] = correct["forgotten"][groups.forgotten]
    figures: dict[str, float | None] = {name: each.mean().item() for name, each in correct.items()}
    remaining = ~torch.isin(groups.labels["test"], torch.tensor(gone, dtype=torch.int64))
    figures["test_remaining_classes"] = correct["test"][remaining].mean().item() if gone else None
    return figures


def _membership(result: MembershipResult) -> Membership:
    return Membership(
        balanced_accuracy=result.balanced_accuracy.value,
        auc=result.auc.value,
        interval=(result.auc.low, result.auc.high),
        members=result.members,
        others=result.non_members,
    )


def _divergences(
    outcome: MethodOutcome, comparison: Comparison, groups: RowGroups
) -> dict[str, Divergence]:
    """JS divergence to the independent Retrains, divided by the one between them."""
    positions = {"forgotten": groups.forgotten, "retained": None, "test": None}
    ratios = {
        part: ratio_to_retrains(outcome, comparison, part, rows) for part, rows in positions.items()
    }
    return {
        part: Divergence(js=each.to_retrain, ratio=ratio_or_none(each))
        for part, each in ratios.items()
    }


def full_cost(agreement: VerticalAgreement, retrain: MethodOutcome) -> Cost:
    """Return the cost of a Retrain without early stopping: the measured cost of ``retrain``.

    If it stopped early, its cost is multiplied by the agreed number of epochs / its own number.
    Newton steps and a training with a local start do not stop early.
    """
    plan, measured = agreement.training, retrain.cost
    done = len(retrain.result.figures["epochs"])
    if plan.optimiser == "newton-cg" or plan.start == "local" or done >= plan.epochs:
        return measured
    scale = plan.epochs / done
    counts = (measured.rows, measured.size, measured.payload, measured.messages)
    return Cost(measured.seconds * scale, *(round(each * scale) for each in counts))


def _cost(cost: Cost, full: Cost | None) -> MethodCost:
    """The cost of a method; without ``full``, the cost of a Retrain, there are no shares."""
    return MethodCost(
        seconds=cost.seconds,
        rows=cost.rows,
        size=cost.size,
        payload=cost.payload,
        messages=cost.messages,
        seconds_of_retrain=cost.seconds / full.seconds if full else None,
        rows_of_retrain=cost.rows / full.rows if full and full.rows else None,
        size_of_retrain=cost.size / full.size if full else None,
    )


def _threshold(split_model: SplitModel, comparison: Comparison) -> ThresholdRecord:
    weight = split_model.agreement.unlearning.of(FedoraSettings).weight

    def score(name: str) -> float:
        logits = comparison.outcome(name).logits["forgotten"]
        return forgetting_scores(logits, weight).mean().item()

    threshold = comparison.delivered.result.threshold
    # The scores of other models are entropy scores, which a counterfactual γ does not limit.
    comparable = threshold is None or threshold.policy != "counterfactual"
    return ThresholdRecord(
        policy=threshold.policy if threshold else None,
        gamma=threshold.gamma if threshold else None,
        scores={name: score(name) for name in _references(comparison)} if comparable else {},
    )


def _entropies(comparison: Comparison, groups: RowGroups) -> dict[str, Any]:
    """Histograms of the predictive entropy, on D_u and on unseen rows of the same classes."""
    classes = comparison.outcome(ORIGINAL).logits["test"].shape[1]
    edges = np.linspace(0, np.log(classes), BINS + 1)

    def counts(logits: Tensor) -> list[int]:
        clipped = np.clip(predictive_entropy(logits).numpy(), 0, edges[-1])
        return [int(count) for count in np.histogram(clipped, edges)[0]]

    def both(outcome: MethodOutcome) -> dict[str, list[int]]:
        return {
            "forgotten": counts(outcome.logits["forgotten"][groups.forgotten]),
            "heldout": counts(outcome.logits["test"][groups.matched]),
        }

    models = {name: both(comparison.outcome(name)) for name in _references(comparison)}
    return {"edges": edges.tolist(), **models}


def _references(comparison: Comparison) -> list[str]:
    """The original and the delivered model, and the first Retrain if there is one."""
    names = [each.name for each in comparison.outcomes]
    return [ORIGINAL, comparison.chosen, *([RETRAIN] if RETRAIN in names else [])]


MetricGroup = Callable[[ModelOutputs, MethodOutcome], dict[str, Measurement]]
_OF_ALL: tuple[MetricGroup, ...] = (
    utility_metrics,
    forgetting_metrics,
    membership_metrics,
    distance_metrics,
    two_sample_metrics,
    backdoor_metrics,
    canary_metrics,
)
_OF_UPDATES: tuple[MetricGroup, ...] = (update_difference_metrics, party_view_metrics)


def all_metrics(models: ModelOutputs) -> dict[str, list[Metric]]:
    """All metrics of each model, by the name of the model."""
    measured = {each.name: _measured(models, each) for each in models.comparison.outcomes}
    return metric_table(measured, [each.name for each in models.retrains])


def _measured(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    figures: dict[str, Measurement] = {}
    for subject in _OF_ALL:
        figures |= subject(models, outcome)
    # Attacks that learn anew for every model: on what is delivered, and on its Retrain column.
    if outcome.name == models.comparison.chosen or is_independent_retrain(outcome.name):
        for subject in _OF_UPDATES:
            figures |= subject(models, outcome)
    return figures
