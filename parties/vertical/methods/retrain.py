"""Retrain, the reference of all metrics: a fresh model, trained on D_r only."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from parties.report.method_names import Label, method_label
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import (
    NewtonRun,
    add_release_noise,
    distance_to_copy,
    kept_points,
    run_newton,
)
from parties.vertical.methods.method import NEWTON_CG
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.single import SingleState, SingleStepMethod
from parties.vertical.methods.train_model import train_model
from protocol import vfl_pb2
from unlearning.certificate import distance_bound

CLOSER = 1e-3  # part of the agreed bound: from this point the true distances are measured


@dataclass(frozen=True)
class RetrainMethod(SingleStepMethod):
    """Training from scratch on D_r, with preprocessing fitted on D_r."""

    fresh: ClassVar[bool] = True
    corrects: ClassVar[bool] = True
    name: str  # name in the config and the report
    stream: str  # random stream of the weights and the batch order

    @property
    def label(self) -> Label:
        """What the report shows of this Retrain model."""
        return method_label(self.name)

    def unlearn(self, run: NetworkRun) -> SingleState:
        """Train like the original model; a paired Newton-CG model gets nearer the optimum."""
        split_model = run.split_model
        solved = split_model.agreement.training.optimiser == "newton-cg"
        if solved and self.stream == ORIGINAL:
            return SingleState(_retrain_to_optimum(split_model, self.stream, self.name))
        epochs = train_model(split_model, vfl_pb2.RETAIN, self.stream, self.name)
        return SingleState({"epochs": [asdict(epoch) for epoch in epochs]})


def _retrain_to_optimum(split_model: SplitModel, stream: str, name: str) -> dict[str, Any]:
    """Retrain closer to the optimum than ``newton.bound``, and measure distances from there."""
    plan = split_model.agreement.newton
    split_model.initialise(stream, vfl_pb2.RETAIN, vfl_pb2.TRAIN)
    closer = max(CLOSER * plan.bound, 10 * distance_bound(0.0, plan.weight))
    run = NewtonRun(name, vfl_pb2.TRAIN, vfl_pb2.RETAIN, closer)
    points = run_newton(split_model, run)
    distances = split_model.once(f"distances from {name}", list, lambda: _distances(split_model))
    add_release_noise(split_model, run, points[-1].bound)
    epochs = [asdict(each.epoch) for each in points]
    return {"epochs": epochs, "bound": points[-1].bound, "distances": distances}


def _distances(split_model: SplitModel) -> list[dict[str, Any]]:
    """Distances from the present model to the points that the Newton-CG method kept."""
    return [
        {"step": step, "distance": distance_to_copy(split_model, slot)}
        for step, slot in kept_points(split_model, NEWTON_CG).items()
    ]
