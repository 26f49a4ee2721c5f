"""Retrain, what all others are measured by: a fresh model on the rows that stay."""

from dataclasses import asdict, dataclass

from parties.federation import Federation
from parties.learn import train
from parties.methods.method import Facts
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Retrain:
    """A model of its own ``stream``; preprocessing is fitted anew, without D_u."""

    name: str
    stream: str  # weights and batch order
    guarantee: Guarantee = Guarantee.EXACT

    def run(self, federation: Federation) -> Facts:
        """Train from scratch as the original was."""
        epochs = train(federation, vfl_pb2.RETAIN, self.stream, self.name)
        return Facts({"epochs": [asdict(epoch) for epoch in epochs]})
