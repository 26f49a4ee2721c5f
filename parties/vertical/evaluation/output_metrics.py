"""Metrics of a model's outputs: utility, forgetting, distances to Retrain models, two-sample tests.

A large p-value does not prove that two distributions are equal. In the
Retrain column of the report, distances are measured between two Retrain models.
"""

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from torch import Tensor
from torch.nn.functional import log_softmax, softmax

from parties.common.shared_randomness import Index
from parties.vertical.evaluation.model_outputs import ModelOutputs
from parties.vertical.evaluation.outcomes import MethodOutcome
from unlearning.audit import utility as of
from unlearning.audit.divergence import (
    js_divergence,
    kl_divergence,
    linear_cka,
    prediction_agreement,
    total_variation,
)
from unlearning.audit.forgetting import (
    entropy_auc,
    label_log_odds,
    predicted_confidence,
    predictive_entropy,
    retrain_relative_score,
    streisand_check,
)
from unlearning.audit.intervals import auc_interval, mean_interval, share_interval
from unlearning.audit.membership import Outputs, membership_features
from unlearning.audit.metric import Direction, Measurement
from unlearning.audit.two_samples import (
    FOLDS,
    Floats,
    TwoSampleTest,
    classifier_test,
    energy_test,
    ks_by_class,
)


def utility_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Utility of a model on test rows, on retained rows, and on the neighbours of D_u in D_r."""
    test = models.outputs(outcome, "test")
    figures = {
        "test_accuracy": accuracy_metric(test),
        "test_macro_f1": _figure(of.macro_f1, test),
        "test_nll": loss_metric(test, Direction.LOWER),
        "test_ece": _figure(of.calibration_error, test, Direction.LOWER),
        "retained_accuracy": accuracy_metric(models.outputs(outcome, "retained")),
        "same_class_accuracy": accuracy_metric(models.outputs(outcome, "test", models.same_class)),
        "neighbour_accuracy": accuracy_metric(
            models.outputs(outcome, "retained", models.neighbours)
        ),
    }
    if models.remaining is not None:
        figures["remaining_accuracy"] = accuracy_metric(
            models.outputs(outcome, "test", models.remaining)
        )
    if len(models.classes) == 2:
        figures["test_balanced_accuracy"] = _figure(of.balanced_accuracy, test)
        figures["test_auroc"] = _figure(of.auroc, test)
    return figures


def accuracy_metric(outputs: Outputs, direction: Direction = Direction.HIGHER) -> Measurement:
    """Accuracy with its confidence interval."""
    n = len(outputs.labels)
    if not n:
        return Measurement(None, 0, direction=direction, note="no such row")
    right = int(of.predicted_correctly(outputs).sum())
    return Measurement(right / n, n, share_interval(right, n), direction)


def loss_metric(outputs: Outputs, direction: Direction) -> Measurement:
    """Mean negative log-likelihood with its confidence interval."""
    losses = of.row_losses(outputs).numpy()
    return Measurement(float(losses.mean()), len(losses), mean_interval(losses), direction)


def _figure(
    work: Callable[[Outputs], float | None],
    outputs: Outputs,
    direction: Direction = Direction.HIGHER,
) -> Measurement:
    value = work(outputs)
    note = "" if value is not None else "one of the classes has no row"
    return Measurement(value, len(outputs.labels), direction=direction, note=note)


_RELATIVE = ("forgotten_accuracy", "forgotten_loss", "forgotten_entropy", "forgotten_confidence")


def forgetting_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Metrics of a model's outputs on D_u; some need Retrain models to compare with."""
    figures = _forgetting(models, outcome) | {"entropy_auc": _entropy_auc(models, outcome)}
    if not models.retrains:
        return figures
    others = [_forgetting(models, each) for each in models.other_retrains(outcome)]
    original = _forgetting(models, models.original)
    recovered = {
        f"{name}_toward_retrain": _relative_score(
            figures[name].value, original[name].value, [each[name].value for each in others]
        )
        for name in _RELATIVE
    }
    return figures | recovered | _streisand(models, outcome)


def _forgetting(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    outputs = models.outputs(outcome, "forgotten", models.row_groups.forgotten)
    return {
        "forgotten_accuracy": accuracy_metric(outputs, Direction.RETRAIN),
        "forgotten_loss": loss_metric(outputs, Direction.RETRAIN),
        "forgotten_entropy": _mean(predictive_entropy(outputs.logits)),
        "forgotten_confidence": _mean(predicted_confidence(outputs.logits)),
    }


def _mean(values: Tensor) -> Measurement:
    return Measurement(float(values.mean()), len(values), mean_interval(values.double().numpy()))


def _relative_score(
    value: float | None, original: float | None, retrains: list[float | None]
) -> Measurement:
    """1 at Retrain, 0 at the original model; n is the number of Retrains."""
    values = [each for each in retrains if each is not None]
    if value is None or original is None or len(values) < 2:
        return Measurement(None, len(values), note="fewer than two other Retrains")
    result = retrain_relative_score(value, fmean(values), original, stdev(values))
    note = "" if result is not None else "the original is within 2 sd of Retrain"
    return Measurement(result, len(values), note=note)


def _entropy_auc(models: ModelOutputs, outcome: MethodOutcome) -> Measurement:
    """The AUC of low entropy: D_u against unseen rows with the class mix of D_u."""
    logits = outcome.logits["forgotten"][models.row_groups.forgotten]
    unseen = outcome.logits["test"][models.row_groups.matched]
    value = entropy_auc(logits, unseen)
    interval = auc_interval(value, len(logits), len(unseen))
    return Measurement(value, len(logits), interval, note="well below 0.5: the rows stand out")


def _streisand(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """The Streisand check; n is the number of rows, and the flag is 1 for conspicuous outputs."""
    others, groups = models.other_retrains(outcome), models.row_groups
    if len(others) < 2:
        return {"streisand": Measurement(None, 0, note="fewer than two other Retrains")}
    logits = outcome.logits["forgotten"][groups.forgotten]
    unseen = outcome.logits["test"][groups.matched]
    result = streisand_check(
        logits, unseen, [each.logits["forgotten"][groups.forgotten] for each in others]
    )
    flag = Measurement(float(result.flagged), len(logits), direction=Direction.LOWER)
    return {"streisand": flag}


def distance_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Mean distances of a model's outputs and embeddings from those of the Retrain models.

    A Retrain model is compared with the other Retrain models. Without Retrains the result is empty.
    """
    if not models.retrains:
        return {}
    rows = {
        "forgotten": models.row_groups.forgotten,
        "retained": models.row_groups.members,
        "test": None,
    }
    others = models.other_retrains(outcome)
    figures: dict[str, Measurement] = {}
    for part, chosen in rows.items():
        ours = _log_p(outcome, part, chosen)
        theirs = [_log_p(each, part, chosen) for each in others]
        for name, measure in _MEASURES.items():
            value = fmean(measure(each, ours) for each in theirs) if theirs else None
            figures[f"{name}_{part}"] = Measurement(value, len(ours), direction=_better(name))
    return figures | embedding_metrics(outcome, others)


def _kl(retrain: Tensor, ours: Tensor) -> float:
    """KL(p_R‖p_u), the mean over rows of [rows, classes] log probabilities."""
    return float(kl_divergence(retrain, ours).mean())


_MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "kl": _kl,
    "js": js_divergence,
    "tv": total_variation,
    "agreement": prediction_agreement,
}


def _better(name: str) -> Direction:
    return Direction.HIGHER if name == "agreement" else Direction.LOWER


def _log_p(outcome: MethodOutcome, part: str, rows: Index | None) -> Tensor:
    logits = outcome.logits[part].double()
    return log_softmax(logits if rows is None else logits[rows], dim=1)


def embedding_metrics(
    outcome: MethodOutcome, others: Sequence[MethodOutcome]
) -> dict[str, Measurement]:
    """Linear CKA of all parties' embeddings, the mean over ``others``, which are Retrain models."""
    figures = {}
    for part in ("forgotten", "test"):
        ours = outcome.embeddings.get(part)
        if ours is None:
            continue
        result = [linear_cka(ours, each.embeddings[part]) for each in others]
        values = [each for each in result if each is not None]
        value = fmean(values) if values else None
        figures[f"cka_{part}"] = Measurement(value, len(ours), direction=Direction.HIGHER)
    return figures


_NOT_EQUAL = "a p-value that is not small does not show equality"


def two_sample_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """Two-sample tests: the model's outputs on D_u against those of another Retrain model."""
    other = models.reference_retrain(outcome)
    if other is None:
        return {}
    plan, rows = models.agreement.evaluation, models.row_groups.forgotten
    labels = models.row_groups.labels["forgotten"][rows]
    logits_ = [each.logits["forgotten"][rows] for each in (outcome, other)]
    odds = [label_log_odds(each, labels).numpy() for each in logits_]
    probabilities = [_probabilities(each) for each in logits_]
    generator = models.row_groups.generator
    figures = _test("ks", ks_by_class(odds[0], odds[1], labels.numpy()))
    figures |= _test(
        "energy", energy_test(probabilities[0], probabilities[1], generator, plan.permutations)
    )
    if plan.classifier_permutations and len(rows) >= FOLDS:
        count = plan.classifier_permutations
        # Sorted, with loss and margin: a linear classifier on the softmax vectors of balanced
        # classes does not notice that all rows became more confident.
        tables = [membership_features(Outputs(each, labels)) for each in logits_]
        figures |= _test("c2st", classifier_test(tables[0], tables[1], generator, count))
    else:
        why = "evaluation.classifier_permutations is 0" if len(rows) >= FOLDS else "too few rows"
        figures["c2st"] = figures["c2st_p"] = Measurement(None, len(rows), note=why)
    return figures


def energy_metrics(
    models: ModelOutputs, outcome: MethodOutcome, predict: Callable[[Tensor], Tensor]
) -> dict[str, Measurement]:
    """The energy test alone: the model's predictions on D_u against those of a Retrain model.

    ``predict`` returns the predictions, [rows, outputs], of a model's outputs.
    """
    other = models.reference_retrain(outcome)
    if other is None:
        return {}
    ours, theirs = (
        predict(each.logits["forgotten"][models.row_groups.forgotten]).double().numpy()
        for each in (outcome, other)
    )
    count = models.agreement.evaluation.permutations
    return _test("energy", energy_test(ours, theirs, models.row_groups.generator, count))


def _probabilities(logits: Tensor) -> Floats:
    probabilities: Floats = softmax(logits.double(), dim=1).numpy()
    return probabilities


def _test(name: str, result: TwoSampleTest) -> dict[str, Measurement]:
    return {
        name: Measurement(result.statistic, result.n, direction=Direction.LOWER),
        f"{name}_p": Measurement(result.p, result.n, direction=Direction.HIGHER, note=_NOT_EQUAL),
    }
