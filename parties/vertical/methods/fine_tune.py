"""Fine-tune, a baseline: train the original on the rows that stay."""

from dataclasses import asdict, dataclass

from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import Plan, learn
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class FineTune:
    """D_u is left out and nothing pushes it out: a row that every table needs."""

    name: str = "fine-tune"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Go on with a new optimiser and a batch order of its own."""
        federation.restore(ORIGINAL, self.name, vfl_pb2.FINE_TUNE)
        epochs = federation.agreement.unlearning.fine_tune.epochs
        batch = federation.agreement.training.batch
        went = learn(federation, Plan(self.name, vfl_pb2.FINE_TUNE, vfl_pb2.RETAIN, epochs, batch))
        return Facts({"epochs": [asdict(epoch) for epoch in went]})
