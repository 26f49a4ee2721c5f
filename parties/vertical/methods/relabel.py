"""Relabel, a baseline: teach a random wrong label for every row of D_u, beside D_r."""

from dataclasses import asdict, dataclass

from torch import Tensor

from parties.common.shared_randomness import key, words
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import Plan, learn
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee
from unlearning.relabelling import wrong_labels


@dataclass(frozen=True, slots=True)
class Relabel:
    """Wrong on purpose, so the rows become conspicuous: a trivial row that every table needs."""

    name: str = "relabel"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Train on D_u and D_r together; the passive parties notice nothing."""
        federation.restore(ORIGINAL, self.name, vfl_pb2.RELABEL)
        agreed, wrong = federation.agreement, relabelled(federation)
        how = (agreed.unlearning.relabel.epochs, agreed.training.batch)
        plan = Plan(self.name, vfl_pb2.RELABEL, vfl_pb2.LEARN, *how, labels=wrong)
        return Facts({"epochs": [asdict(epoch) for epoch in learn(federation, plan)]})


def relabelled(federation: Federation) -> Tensor:
    """Labels of all common rows, [common rows], those of D_u being wrong."""
    labels, rows = federation.labels.clone(), federation.rows.forgotten
    classes = len(federation.agreement.labels.classes)
    drawn = words(key(federation.agreement.seed, "relabel"), len(labels))[rows]
    labels[rows] = wrong_labels(labels[rows], drawn, classes)
    return labels
