"""Shrink and perturb, a baseline: move parameters towards fresh values, then train on D_r."""

from dataclasses import asdict, dataclass

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import ShrinkShares, SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class ShrinkPerturbMethod:
    """Shrink and perturb: a random change weakens the effect of D_u; training restores utility."""

    name: str = "shrink-perturb"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Shrink all parameters, then train on D_r."""
        plan = split_model.agreement.unlearning.shrink_perturb
        task = vfl_pb2.SHRINK_PERTURB
        split_model.restore_copy(ORIGINAL, self.name, task)
        split_model.shrink(ShrinkShares.agreed(plan.share, plan.top), self.name, task)
        batch = split_model.agreement.training.batch
        epochs = train_epochs(
            split_model, TrainingPlan(self.name, task, vfl_pb2.RETAIN, plan.epochs, batch)
        )
        return MethodResult({"epochs": [asdict(epoch) for epoch in epochs]})
