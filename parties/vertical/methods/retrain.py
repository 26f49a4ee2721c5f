"""Retrain, what all others are measured by: a fresh model on the rows that stay."""

from dataclasses import asdict, dataclass

from parties.vertical.engine.split_model import Federation
from parties.vertical.methods.method import ORIGINAL, Facts
from parties.vertical.methods.newton_cg import optimum
from parties.vertical.training_run import train
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Retrain:
    """A model of its own ``stream``; preprocessing is fitted anew, without D_u."""

    name: str
    stream: str  # weights and batch order
    guarantee: Guarantee = Guarantee.EXACT

    def run(self, federation: Federation) -> Facts:
        """Train from scratch as the original was; a paired head of Newton steps to the optimum."""
        solved = federation.agreement.training.optimiser == "newton-cg"
        if solved and self.stream == ORIGINAL:
            return optimum(federation, self.stream, self.name)
        epochs = train(federation, vfl_pb2.RETAIN, self.stream, self.name)
        return Facts({"epochs": [asdict(epoch) for epoch in epochs]})
