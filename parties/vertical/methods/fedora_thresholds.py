"""FedORA's threshold γ by the policies that score uncertainty, and the calibration of the top."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from configs.agreement import MlpTop, TrainingSettings
from parties.common.errors import PolicyError
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.orders import Start
from parties.vertical.methods.run import VerticalRun, train_epoch
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.calibration import calibration_factor
from unlearning.objectives import forgetting_scores


def reference_start(plan: FedoraSettings, training: TrainingSettings) -> Start:
    """The update rule of the reference model, and the sample of D_r that trains it."""
    rule = UpdateRule.like_training(training, plan.reference_learning_rate)
    return rule, Sample("reference", plan.reference_share)


def choose_thresholds(run: VerticalRun, original: Sequence[Tensor]) -> tuple[str, list[float]]:
    """The policy that set the thresholds, and the threshold γ of each model.

    Args:
        run: the models.
        original: [validation_rows, classes], the logits of each original model.

    Raises:
        PolicyError: the policy needs validation rows of the classes that occur in D_u, but there
            are no such validation rows.
    """
    plan, classes = run.settings(FedoraSettings), len(run.agreement.labels.classes)
    if plan.policy == "counterfactual":
        return "counterfactual", [-plan.epsilon] * len(original)
    if plan.policy == "uniform":
        gamma = thresholds.uniform_threshold(classes, plan.weight)
        return "uniform", [gamma] * len(original)
    if plan.policy == "proxy":
        logits = _reference(run)
        if run.finite:
            scores = [forgetting_scores(each, plan.weight) for each in logits]
            # On a tenth of the rows a model is less sure of D_u than Retrain is (decision 16).
            settings = (classes, plan.weight, plan.entropy_factor)
            return "proxy", [thresholds.proxy_threshold(each, *settings) for each in scores]
        run.progress.warn("the reference model diverged; the threshold is 'heldout'")
    levels = heldout_gammas(run, original)
    return ("present" if plan.policy == "present" else "heldout"), levels


def _reference(run: VerticalRun) -> list[Tensor]:
    """Logits on D_u, [forgotten, classes], of models trained on a fixed sample of D_r."""
    plan, training = run.settings(FedoraSettings), run.agreement.training
    run.initialise("reference", vfl_pb2.SAMPLE, *reference_start(plan, training))
    size = plan.reference_batch
    batches = -(-run.row_count(vfl_pb2.SAMPLE) // size)
    run.progress.phase("reference", plan.reference_epochs * (batches + 1))
    for number in range(1, plan.reference_epochs + 1):
        work = partial(train_epoch, run, vfl_pb2.SAMPLE, number, size=size)
        run.once(f"reference, epoch {number}", float, work)
        if not run.finite:
            break
    read = partial(run.logits, vfl_pb2.FORGOTTEN)
    return run.once("outputs of the reference", list[Tensor], read)


def heldout_gammas(run: VerticalRun, logits: Sequence[Tensor]) -> list[float]:
    """γ of each model from its ``logits``, [validation_rows, classes].

    The validation rows are weighted to the class mix of D_u.

    Raises:
        PolicyError: no validation row has a class of D_u.
    """
    plan, classes = run.settings(FedoraSettings), len(run.agreement.labels.classes)
    gammas = []
    for own, rows in zip(logits, run.sets, strict=True):
        compared = min(len(rows.forgotten), plan.score_rows or len(rows.forgotten))
        truth, forgotten = run.labels[rows.validation], run.labels[rows.forgotten]
        scores = forgetting_scores(own, plan.weight)
        try:
            level = thresholds.class_matched_level(scores, truth, forgotten, compared)
        except ValueError as error:
            raise PolicyError(
                "no validation row has a class of the forgotten rows", "raise split.validation"
            ) from error
        gammas.append(thresholds.heldout_threshold(level, classes, plan.weight, plan.margin))
    return gammas


def calibrate_top(run: VerticalRun, original: Sequence[Tensor]) -> float | None:
    """Scale the logits to restore the original model's confidence on validation rows.

    The confidence is the median log-odds of the predicted class. Only validation rows of unaffected
    classes are used; a class is unaffected if it has no forgotten row. On the other classes,
    Retrain is less confident than the original model.

    Args:
        run: the models.
        original: [validation_rows, classes], the logits of each original model.

    Returns:
        The factor by which the logits of the first model are multiplied. The result is None if no
        validation row has an unaffected class, or if ``fedora.calibrate`` is off. It is also None
        if ``top.kind`` is ``'sum'``, because this top model cannot scale logits.
    """
    chosen = [_unaffected(run.labels, rows) for rows in run.sets]
    is_mlp = isinstance(run.agreement.top, MlpTop)
    if not (run.settings(FedoraSettings).calibrate and is_mlp and all(map(torch.any, chosen))):
        return None
    factors = run.once("calibration", list[float], partial(_calibrate, run, original, chosen))
    return factors[0]


def _unaffected(labels: Tensor, rows: RowSets) -> Tensor:
    """Which validation rows are of a class without a forgotten row, [validation_rows]."""
    return ~torch.isin(labels[rows.validation], torch.unique(labels[rows.forgotten]))


def _calibrate(
    run: VerticalRun, original: Sequence[Tensor], chosen: Sequence[Tensor]
) -> list[float]:
    present = run.logits(vfl_pb2.VALIDATION)
    if not run.finite:
        return [1.0] * len(present)
    triples = zip(present, original, chosen, strict=True)
    factors = [calibration_factor(now[rows], then[rows]) for now, then, rows in triples]
    run.scale_logits(factors)
    return factors
