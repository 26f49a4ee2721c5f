"""Relabel, a baseline: train on random wrong labels for D_u, together with D_r."""

from dataclasses import asdict, dataclass

from torch import Tensor

from parties.common.shared_randomness import derive_key, random_words
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.baselines import wrong_labels
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class RelabelMethod:
    """Training on wrong labels, a trivial baseline: the wrong predictions make D_u conspicuous."""

    name: str = "relabel"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Train on D_u and D_r; to the passive parties, this looks like ordinary training."""
        split_model.restore_copy(ORIGINAL, self.name, vfl_pb2.RELABEL)
        agreement, labels = split_model.agreement, wrong_forget_labels(split_model)
        settings = (agreement.unlearning.relabel.epochs, agreement.training.batch)
        plan = TrainingPlan(
            self.name, vfl_pb2.RELABEL, vfl_pb2.TRAIN_ROWS, *settings, labels=labels
        )
        return MethodResult(
            {"epochs": [asdict(epoch) for epoch in train_epochs(split_model, plan)]}
        )


def wrong_forget_labels(split_model: SplitModel) -> Tensor:
    """Labels of all common rows, [common_rows], with random wrong labels for D_u."""
    labels, rows = split_model.labels.clone(), split_model.rows.forgotten
    classes = len(split_model.agreement.labels.classes)
    words = random_words(derive_key(split_model.agreement.seed, "relabel"), len(labels))[rows]
    labels[rows] = wrong_labels(labels[rows], words, classes)
    return labels
