"""Figures of utility: over all test rows, the classes that remain, and D_u's neighbourhood."""

from collections.abc import Callable

from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit import utility as of
from unlearning.audit.figure import Direction, Measured
from unlearning.audit.intervals import of_mean, of_share
from unlearning.audit.membership import Outputs


def utility(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """What the model is still good for."""
    test = seen.outputs(outcome, "test")
    figures = {
        "test_accuracy": share(test),
        "test_macro_f1": _figure(of.macro_f1, test),
        "test_nll": mean_loss(test, Direction.LOWER),
        "test_ece": _figure(of.calibration_error, test, Direction.LOWER),
        "retained_accuracy": share(seen.outputs(outcome, "retained")),
        "same_class_accuracy": share(seen.outputs(outcome, "test", seen.same_class)),
        "neighbour_accuracy": share(seen.outputs(outcome, "retained", seen.around)),
    }
    if seen.remaining is not None:
        figures["remaining_accuracy"] = share(seen.outputs(outcome, "test", seen.remaining))
    if len(seen.classes) == 2:
        figures["test_balanced_accuracy"] = _figure(of.balanced_accuracy, test)
        figures["test_auroc"] = _figure(of.auroc, test)
    return figures


def share(outputs: Outputs, direction: Direction = Direction.HIGHER) -> Measured:
    """Accuracy with its interval."""
    n = len(outputs.labels)
    if not n:
        return Measured(None, 0, direction=direction, note="no such row")
    right = int(of.correct(outputs).sum())
    return Measured(right / n, n, of_share(right, n), direction)


def mean_loss(outputs: Outputs, direction: Direction) -> Measured:
    """Mean negative log-likelihood with its interval."""
    losses = of.losses(outputs).numpy()
    return Measured(float(losses.mean()), len(losses), of_mean(losses), direction)


def _figure(
    work: Callable[[Outputs], float | None],
    outputs: Outputs,
    direction: Direction = Direction.HIGHER,
) -> Measured:
    value = work(outputs)
    note = "" if value is not None else "one of the classes has no row"
    return Measured(value, len(outputs.labels), direction=direction, note=note)
