"""Relabel, a baseline: train on random wrong labels for D_u, together with D_r."""

from typing import ClassVar

from torch import Tensor

from parties.common.shared_randomness import derive_key, random_words
from parties.report.method_names import Label
from parties.vertical.methods.epochs import EpochMethod, EpochSettings
from parties.vertical.methods.run import VerticalRun
from protocol import vfl_pb2
from unlearning.baselines import wrong_labels


class RelabelSettings(EpochSettings):
    """Baseline: train on the remaining rows, and on the forgotten rows with wrong labels."""


class RelabelMethod(EpochMethod):
    """Training on wrong labels, a trivial baseline: the wrong predictions make D_u conspicuous.

    To the passive parties, this method looks like ordinary training.
    """

    name: ClassVar = "relabel"
    only_classes: ClassVar = "it trains on the labels of other classes"
    label: ClassVar = Label("Relabel", "wrong labels for the forgotten rows")
    settings: ClassVar = RelabelSettings
    rows: ClassVar = vfl_pb2.TRAIN_ROWS

    def labels(self, run: VerticalRun) -> Tensor:
        """Labels of all common rows, [N, common_rows], with random wrong labels for D_u."""
        agreement, labels = run.agreement, run.labels.repeat(len(run.sets), 1)
        words = random_words(derive_key(agreement.seed, "relabel"), len(run.labels))
        for own, sets in zip(labels, run.sets, strict=True):
            rows = sets.forgotten
            own[rows] = wrong_labels(own[rows], words[rows], len(agreement.labels.classes))
        return labels
