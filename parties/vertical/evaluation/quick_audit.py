"""The quick audit of a request: what can be measured without a Retrain, in seconds."""

from dataclasses import asdict, dataclass

from torch import Tensor

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import share_correct
from protocol import vfl_pb2
from unlearning.audit.forgetting import label_log_odds, predictive_entropy
from unlearning.audit.scores import ScoredRows, within_class_auc


@dataclass(frozen=True, slots=True)
class QuickAudit:
    """Figures of a model before and after a request, none of which needs a Retrain.

    An AUC compares rows of the same class; it is None if no class has rows on both sides.
    """

    validation_before: float  # accuracy on validation rows
    validation_after: float
    test_before: float  # accuracy on test rows
    test_after: float
    forgotten_before: float  # accuracy on the rows to forget
    forgotten_after: float
    # AUC of an attack that takes rows with a high log-odds of their label for forgotten rows; the
    # other rows are test rows, which no training used. 0.5: not distinguishable.
    membership_auc: float | None
    membership_error: float | None  # half width of its 95 % interval
    # AUC of an attack that takes rows with a high entropy for forgotten rows. Above 0.5: the
    # forgotten rows stand out.
    streisand_auc: float | None

    def loses(self) -> float:
        """Return the loss of accuracy on validation rows."""
        return self.validation_before - self.validation_after

    def as_text(self) -> dict[str, str]:
        """Return the figures as texts, for the journal and the receipt."""
        return {name: f"{value:.4f}" for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Readout:
    """Logits of one model on the validation, test and forgotten rows, [rows, classes] each."""

    validation: Tensor
    test: Tensor
    forgotten: Tensor


def read_out(split_model: SplitModel) -> Readout:
    """Read the outputs of the present model; call it in a function that is passed to ``once``."""
    return Readout(
        validation=split_model.logits(vfl_pb2.VALIDATION),
        test=split_model.logits(vfl_pb2.TEST),
        forgotten=split_model.logits(vfl_pb2.FORGOTTEN),
    )


def quick_audit(split_model: SplitModel, before: Readout, after: Readout) -> QuickAudit:
    """Compare the outputs before and after a request; D_u is still in the row sets."""
    rows, labels = split_model.rows, split_model.labels
    truth = {
        "validation": labels[rows.validation],
        "test": labels[rows.test],
        "forgotten": labels[rows.forgotten],
    }
    accuracies = {
        f"{name}_{when}": share_correct(getattr(readout, name), each)
        for when, readout in (("before", before), ("after", after))
        for name, each in truth.items()
    }
    membership = within_class_auc(
        _scored(label_log_odds(after.forgotten, truth["forgotten"]), truth["forgotten"]),
        _scored(label_log_odds(after.test, truth["test"]), truth["test"]),
    )
    streisand = within_class_auc(
        _scored(predictive_entropy(after.forgotten), truth["forgotten"]),
        _scored(predictive_entropy(after.test), truth["test"]),
    )
    return QuickAudit(
        **accuracies,
        membership_auc=None if membership is None else membership.value,
        membership_error=None if membership is None else (membership.high - membership.low) / 2,
        streisand_auc=None if streisand is None else streisand.value,
    )


def _scored(scores: Tensor, labels: Tensor) -> ScoredRows:
    return ScoredRows(scores.double().numpy(), labels.numpy())
