"""Shrink and perturb, a baseline: move the halves towards fresh ones, then train on D_r."""

from dataclasses import asdict, dataclass

from configs.unlearning import Top
from parties.vertical.engine.split_model import Federation, Shrink
from parties.vertical.engine.train import Plan, learn
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class ShrinkPerturb:
    """A part of what the model knows is lost at random, and what D_r still teaches comes back."""

    name: str = "shrink-perturb"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Every party moves its own half; only then do rows cross."""
        plan = federation.agreement.unlearning.shrink_perturb
        task = vfl_pb2.SHRINK_PERTURB
        federation.restore(ORIGINAL, self.name, task)
        federation.shrink(shrink_of(plan.share, plan.top), self.name, task)
        batch = federation.agreement.training.batch
        went = learn(federation, Plan(self.name, task, vfl_pb2.RETAIN, plan.epochs, batch))
        return Facts({"epochs": [asdict(epoch) for epoch in went]})


def shrink_of(share: float, top: Top) -> Shrink:
    """What an agreed share and word for the top mean."""
    return Shrink(share, share_of_top(share, top))


def share_of_top(share: float, top: Top) -> float:
    """What becomes of the top while bottoms shrink by ``share``."""
    return {"keep": 0.0, "shrink": share, "fresh": 1.0}[top]
