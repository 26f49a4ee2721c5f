"""Fine-tune, a baseline: continue to train the original model on D_r."""

from dataclasses import asdict, dataclass

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class FineTuneMethod:
    """Fine-tuning on D_r, a trivial baseline: no term of the loss removes the effect of D_u."""

    name: str = "fine-tune"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Train on D_r with a new optimiser and a separate batch order."""
        split_model.restore_copy(ORIGINAL, self.name, vfl_pb2.FINE_TUNE)
        epochs = split_model.agreement.unlearning.fine_tune.epochs
        batch = split_model.agreement.training.batch
        plan = TrainingPlan(self.name, vfl_pb2.FINE_TUNE, vfl_pb2.RETAIN, epochs, batch)
        results = train_epochs(split_model, plan)
        return MethodResult({"epochs": [asdict(epoch) for epoch in results]})
