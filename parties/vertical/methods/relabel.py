"""Relabel, a baseline: train on random wrong labels for D_u, together with D_r."""

from typing import ClassVar

from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
from configs.unlearning import MethodSettings
from parties.common.shared_randomness import derive_key, random_words
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.methods.epochs import EpochMethod
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import VerticalRun
from protocol import vfl_pb2
from unlearning.baselines import wrong_labels


class RelabelSettings(MethodSettings):
    """Baseline: train on the remaining rows, and on the forgotten rows with wrong labels."""

    learning_rate: Positive = 1e-3
    epochs: Count = 2


class RelabelMethod(EpochMethod):
    """Training on wrong labels, a trivial baseline: the wrong predictions make D_u conspicuous.

    To the passive parties, this method looks like ordinary training.
    """

    name: ClassVar = "relabel"
    settings: ClassVar = RelabelSettings
    rows: ClassVar = vfl_pb2.TRAIN_ROWS

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model."""
        plan = agreement.unlearning.of(RelabelSettings)
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs)

    def epochs(self, run: VerticalRun) -> int:
        """The number of epochs."""
        return run.settings(RelabelSettings).epochs

    def prepare(self, run: VerticalRun) -> None:
        """Start from the original model, with a new optimiser and a separate batch order."""
        rate = run.settings(RelabelSettings).learning_rate
        run.start(ORIGINAL, self.name, UpdateRule.like_training(run.agreement.training, rate))

    def labels(self, run: VerticalRun) -> Tensor:
        """Labels of all common rows, [N, common_rows], with random wrong labels for D_u."""
        agreement, labels = run.agreement, run.labels.repeat(len(run.sets), 1)
        words = random_words(derive_key(agreement.seed, "relabel"), len(run.labels))
        for own, sets in zip(labels, run.sets, strict=True):
            rows = sets.forgotten
            own[rows] = wrong_labels(own[rows], words[rows], len(agreement.labels.classes))
        return labels
