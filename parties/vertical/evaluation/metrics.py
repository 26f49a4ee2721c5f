"""The record of one request: all metrics of all models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.targets import NumberTarget
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
    js_ratio_to_retrains,
    ratio_or_none,
)
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.output_metrics import (
    distance_metrics,
    forgetting_metrics,
    two_sample_metrics,
    utility_metrics,
)
from parties.vertical.evaluation.quick_audit import loss_attack
from parties.vertical.evaluation.row_groups import RowGroups
from parties.vertical.methods.fedora import FedoraSettings
from parties.vertical.methods.registry import METHODS
from unlearning.audit.forgetting import predictive_entropy
from unlearning.audit.membership import MembershipResult, Outputs
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
    """The record of a request as JSON values; the caller adds the results of the purge."""
    models = ModelOutputs(split_model.agreement, comparison, groups)
    return Request(
        name=chosen.request.name,
        rows=_rows(split_model, chosen),
        methods=tuple(_methods(split_model, models, chosen)),
        chosen=comparison.chosen,
        audit_level=AuditLevel.FULL if models.retrains else AuditLevel.QUICK,
        threshold=_threshold(split_model, comparison),
        audits=Audits(
            **request_audits(models),
            entropy=_entropies(comparison, groups),
            label_attack=label_attack(split_model, comparison),
            canaries=canary_audit(models, METHODS[comparison.chosen].label.title)
            if len(groups.canaries)
            else None,
        ),
    ).plain()


def _methods(
    split_model: SplitModel, models: ModelOutputs, chosen: RequestRows
) -> list[MethodRecord]:
    groups, comparison = models.row_groups, models.comparison
    whole = chosen.request.fraction == 1 and not chosen.request.corrects
    removed_classes = chosen.request.classes if whole else ()
    gone = [split_model.agreement.labels.classes.index(name) for name in removed_classes]
    retrains = models.retrains
    full = _full_retrain(split_model, retrains[0].cost) if retrains else None
    figures = all_metrics(models)
    own = {name: each.label for name, each in METHODS.items()}
    return [
        MethodRecord(
            name=outcome.name,
            **method_label(outcome.name, outcome.result.label or own.get(outcome.name))._asdict(),
            guarantee=outcome.guarantee and outcome.guarantee.value,
            cost=None if outcome.name == ORIGINAL else _cost(outcome.cost, full),
            figures=tuple(Figure(**each.plain()) for each in figures[outcome.name]),
            steps=tuple(_step(each) for each in outcome.result.iterations),
            stopped=outcome.result.stopped,
            details=outcome.result.figures,
            accuracy=_accuracies(outcome, groups, gone),
            membership=_membership(models.membership_results[outcome.name]),
            divergence=_divergences(outcome, comparison, groups) if retrains else None,
        )
        for outcome in comparison.outcomes
    ]


CLASSES_ONLY = "measured only for labels that are one of several classes"
_CLASS_METRICS = ("mia_auc", "entropy_auc", "update_auc_unseen")
_OF_TEST = dict.fromkeys(("r2", "accuracy", "auc_macro", "auc_micro"), Direction.HIGHER)
_OF_TEST |= dict.fromkeys(("mae", "rmse", "hamming_loss"), Direction.LOWER)
_OF_FORGOTTEN = ("mae", "hamming_loss")  # the other figures need many rows


def other_request_record(
    split_model: SplitModel, chosen: RequestRows, comparison: Comparison
) -> JsonObject:
    """The record of a request if the labels are not one of several classes, as JSON values."""
    own = {name: each.label for name, each in METHODS.items()}
    measured = {each.name: _other_metrics(split_model, each) for each in comparison.outcomes}
    figures = metric_table(measured, [])
    methods = [
        MethodRecord(
            name=outcome.name,
            **method_label(outcome.name, outcome.result.label or own.get(outcome.name))._asdict(),
            guarantee=outcome.guarantee and outcome.guarantee.value,
            cost=None if outcome.name == ORIGINAL else _cost(outcome.cost, None),
            figures=tuple(Figure(**each.plain()) for each in figures[outcome.name]),
            stopped=outcome.result.stopped,
            details=outcome.result.figures,
        )
        for outcome in comparison.outcomes
    ]
    return Request(
        name=chosen.request.name,
        rows=_rows(split_model, chosen),
        methods=tuple(methods),
        chosen=comparison.chosen,
        audit_level=AuditLevel.QUICK,
        audits=Audits(),
    ).plain()


def _other_metrics(split_model: SplitModel, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Metrics of a model that predicts a number or several binary labels, by name.

    The membership attack takes rows with a small loss for forgotten rows; the others are test rows.
    """
    target, sets = split_model.target, split_model.rows
    test, forgotten = (
        Outputs(outcome.logits[name], split_model.labels[rows])
        for name, rows in (("test", sets.test), ("forgotten", sets.forgotten))
    )
    figures = number_figures if isinstance(target, NumberTarget) else labels_figures
    found = {
        f"test_{name}": Measurement(value, len(test.labels), direction=_OF_TEST[name])
        for name, value in figures(test).values.items()
    }
    found |= {
        f"forgotten_{name}": Measurement(value, len(forgotten.labels))
        for name, value in figures(forgotten).values.items()
        if name in _OF_FORGOTTEN
    }
    attack, rows = loss_attack(target, forgotten, test), len(forgotten.labels)
    found["loss_auc"] = (
        Measurement(None, rows, note="no test row")
        if attack is None
        else Measurement(attack.value, rows, (attack.low, attack.high), least=FEW)
    )
    return found | {name: Measurement(None, 0, note=CLASSES_ONLY) for name in _CLASS_METRICS}


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
        part: js_ratio_to_retrains(outcome, comparison, part, rows)
        for part, rows in positions.items()
    }
    return {
        part: Divergence(js=each.to_retrain, ratio=ratio_or_none(each))
        for part, each in ratios.items()
    }


def _full_retrain(split_model: SplitModel, measured: Cost) -> Cost:
    """The cost of Retrain for all epochs, without early stopping."""
    if split_model.agreement.training.optimiser == "newton-cg":
        return measured  # Newton steps have no epochs and end at the optimum
    passives = len(split_model.agreement.passive)
    rows = split_model.agreement.training.epochs * len(split_model.rows.retain) * passives
    if not measured.rows:  # all embeddings were sent before, so Retrain sends none either
        return measured
    scale = rows / measured.rows
    sizes = (measured.size, measured.payload, measured.messages)
    return Cost(measured.seconds * scale, rows, *(round(each * scale) for each in sizes))


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
