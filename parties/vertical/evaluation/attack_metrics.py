"""Metrics of attacks on a model: membership, update difference, party views, backdoor.

The update-difference attack compares the predictions of the models before and after unlearning. The
party-view attack compares one party's embeddings before and after unlearning. A passive party
already knows which rows were forgotten. The party-view metric therefore concerns an observer who
sees the embeddings, but does not know the forgotten rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.vertical.evaluation.model_outputs import ModelOutputs
from parties.vertical.evaluation.outcomes import MethodOutcome
from unlearning.audit.backdoor import BackdoorSuccess, backdoor_success, learned_trigger
from unlearning.audit.intervals import share_interval
from unlearning.audit.membership import MembershipResult, membership_features
from unlearning.audit.metric import Direction, Measurement
from unlearning.audit.scores import (
    FOLDS,
    MIN_NEGATIVES,
    Floats,
    Labels,
    ScoredRows,
    cross_fitted_scores,
    distinguishability,
    within_class_auc,
)
from unlearning.audit.update_difference import change_features, output_change_features

FEW = 25  # rows of D_u; with fewer the standard error of a balanced accuracy is above 0.05


def membership_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Metrics of membership attacks on the forgotten rows and on the retained rows."""
    figures = attack_metrics("mia", models.membership_results[outcome.name])
    figures["retained_mia_auc"] = _retained(models, outcome)
    if outcome.name in models.shadow_results:
        figures |= attack_metrics("shadow_mia", models.shadow_results[outcome.name])
    return figures


def attack_metrics(prefix: str, result: MembershipResult) -> dict[str, Measurement]:
    """Metrics of a membership attack on the forgotten rows (D_u).

    An AUC below 0.5 also shows a leak, because an attacker can invert the result of the attack.
    """
    value, balanced, n = result.auc.value, result.balanced_accuracy, result.members
    distinguishability_ = distinguishability(value)
    side = "forgotten rows look less like members" if distinguishability_.sign < 0 else ""
    return {
        f"{prefix}_balanced_accuracy": Measurement(
            balanced.value, n, (balanced.low, balanced.high), least=FEW
        ),
        f"{prefix}_auc": Measurement(value, n, (result.auc.low, result.auc.high), least=FEW),
        f"{prefix}_distinguishability": Measurement(
            distinguishability_.value, n, least=FEW, note=side
        ),
        f"{prefix}_tpr_at_1_fpr": Measurement(
            result.tpr,
            result.non_members,
            least=MIN_NEGATIVES,
            note="" if result.non_members >= MIN_NEGATIVES else "no false positive was allowed",
        ),
    }


def _retained(models: ModelOutputs, outcome: MethodOutcome) -> Measurement:
    """The same attack, trained on one half of the members and scored on the other half.

    Members are compared with unseen rows of the same class: the class mixes of D_r and of the test
    rows differ.
    """
    members = models.outputs(outcome, "retained", models.held_back_members)
    unseen = models.outputs(outcome, "test", models.row_groups.unseen)
    positives, negatives = (
        ScoredRows(
            models.half_trained_attack.predict_proba(membership_features(side))[:, 1],
            side.labels.numpy(),
        )
        for side in (members, unseen)
    )
    return _within_classes(positives, negatives)


def _within_classes(positives: ScoredRows, negatives: ScoredRows) -> Measurement:
    """The AUC over pairs of rows of the same class."""
    found = within_class_auc(positives, negatives)
    if found is None:
        return Measurement(None, len(positives.labels), note="the two kinds have no common class")
    return Measurement(found.value, found.n, (found.low, found.high))


def update_difference_metrics(
    models: ModelOutputs, outcome: MethodOutcome
) -> dict[str, Measurement]:
    """Metrics of attacks that recognise forgotten rows (D_u) by the change of the model's outputs.

    One attack compares D_u with retained rows (D_r), and the other compares D_u with test rows.
    Both attacks are trained on rows with the same class mix, and compare rows of the same class.
    """
    before, after = models.original.logits, outcome.logits

    def rows(part: str, chosen: Index) -> AttackedRows:
        features = output_change_features(before[part][chosen], after[part][chosen])
        return AttackedRows(features, models.row_groups.labels[part][chosen].numpy())

    forgotten, retained = models.attacked_pairs
    return {
        "update_auc_retained": _update_attack(
            models, rows("forgotten", forgotten), rows("retained", retained)
        ),
        "update_auc_unseen": _update_attack(
            models,
            rows("forgotten", models.attacked_forgotten),
            rows("test", models.attacked_unseen),
        ),
    }


def party_view_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Metrics of attacks that recognise forgotten rows by the change of one party's embeddings.

    There is one attack per party; it compares the forgotten rows with test rows.
    """
    before, after = _by_party(models, models.original), _by_party(models, outcome)

    def rows(name: str, part: str, chosen: Index) -> AttackedRows:
        features = change_features(before[name][part][chosen], after[name][part][chosen])
        return AttackedRows(features, models.row_groups.labels[part][chosen].numpy())

    return {
        f"view_auc_{name}": _update_attack(
            models,
            rows(name, "forgotten", models.attacked_forgotten),
            rows(name, "test", models.attacked_unseen),
        )
        for name in before  # in the agreement's order; a set has another in every process
        if name in after
    }


@dataclass(frozen=True, slots=True)
class AttackedRows:
    """Rows of one kind in an attack that is trained on each model."""

    features: Floats  # [rows, features]
    labels: Labels  # [rows]


def _update_attack(
    models: ModelOutputs, forgotten: AttackedRows, others: AttackedRows
) -> Measurement:
    if min(len(forgotten.labels), len(others.labels)) < FOLDS:
        return Measurement(None, len(forgotten.labels), note=f"fewer than {FOLDS} rows of a kind")
    scores = cross_fitted_scores(forgotten.features, others.features, models.row_groups.seed)
    return _within_classes(
        ScoredRows(scores[0], forgotten.labels), ScoredRows(scores[1], others.labels)
    )


def _by_party(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, dict[str, Tensor]]:
    """The embeddings of each party by row set; empty if a party is missing in a model."""
    widths = {
        name: backdoor.width or 0 for name, backdoor in models.agreement.feature_parties.items()
    }
    parts = {name: each for name, each in outcome.embeddings.items() if name != "retained"}
    if not parts or any(each.shape[1] != sum(widths.values()) for each in parts.values()):
        return {}
    split = {part: torch.split(each, list(widths.values()), 1) for part, each in parts.items()}
    return {
        name: {part: each[place] for part, each in split.items()}
        for place, name in enumerate(widths)
    }


INVALID = "the original did not learn the trigger: this run shows nothing"


def backdoor_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Success rates of the backdoor with and without the trigger; empty without a backdoor."""
    backdoor = models.comparison.request.backdoor
    if backdoor is None:
        return {}
    target = models.classes.index(backdoor.target)

    def measure(each: MethodOutcome) -> BackdoorSuccess:
        logits, labels = each.logits, models.row_groups.labels["test"]
        return backdoor_success(logits["triggered"], logits["test"], labels, target)

    result, note = measure(outcome), "" if learned_trigger(measure(models.original)) else INVALID
    shares = {"backdoor_success": result.success, "backdoor_base": result.base}
    figures = {
        name: Measurement(
            value, result.rows, share_interval(round(value * result.rows), result.rows), note=note
        )
        for name, value in shares.items()
    }
    excess = Measurement(result.excess, result.rows, direction=Direction.RETRAIN, note=note)
    return figures | {"backdoor_excess": excess}
