"""Newton-CG, certified unlearning: Newton steps to the optimum on D_r, with a distance bound."""

from dataclasses import asdict
from typing import Any, ClassVar

from parties.report.method_names import Label
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import (
    NewtonPoint,
    NewtonRun,
    add_release_noise,
    release_noise,
    run_newton,
)
from parties.vertical.methods.method import NEWTON_CG
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.single import SingleState, SingleStepMethod
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


class NewtonCgMethod(SingleStepMethod):
    """Newton-CG: the distance to the optimum on D_r is at most ‖∇F_r‖/λ, for any start point."""

    name: ClassVar = NEWTON_CG
    only_classes: ClassVar = "its certificate is that of softmax regression"
    label: ClassVar = Label("Newton-CG", "Newton steps to the optimum of the remaining rows")
    guarantee: ClassVar = Guarantee.DISTANCE_CERTIFIED

    def unlearn(self, run: NetworkRun) -> SingleState:
        """Run Newton steps from the original model; with release noise the guarantee is (ε, δ)."""
        split_model = run.split_model
        split_model.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        bound = split_model.agreement.newton.bound
        newton = NewtonRun(NEWTON_CG, vfl_pb2.UNLEARN, vfl_pb2.RETAIN, bound, keep_points=True)
        points = run_newton(split_model, newton)
        reached = points[-1].bound
        noisy = add_release_noise(split_model, newton, reached)
        return SingleState(
            {"certificate": _certificate(split_model, points, noisy)},
            stopped="the bound was reached" if reached <= bound else "the effort was spent",
            guarantee=Guarantee.CERTIFIED if noisy else None,
        )


def _certificate(split_model: SplitModel, points: list[NewtonPoint], noisy: bool) -> dict[str, Any]:
    plan, rows = split_model.agreement.newton, len(split_model.rows.retain)
    classes = len(split_model.agreement.labels.classes)
    return {
        "weight": plan.weight,
        "bound": points[-1].bound,
        "wanted": plan.bound,
        "steps": [{"bound": each.bound, **asdict(each.step)} for each in points],
        # Each passive party sends votes and receives gradients, of 8 bytes per number.
        "product_bytes": 2 * 8 * rows * classes,
        "epsilon": plan.release.epsilon if plan.release and noisy else None,
        "delta": plan.release.delta if plan.release and noisy else None,
        "noise": release_noise(split_model.agreement) if noisy else None,
        "assumes": list(ASSUMED) + (list(ASSUMED_OF_NOISE) if noisy else []),
    }


ASSUMED = (
    "the features of a row depend on that row only: ranges and vocabularies were declared",
    "all parties follow the protocol and compute in float64",
)
ASSUMED_OF_NOISE = (
    "the reference is the exact optimum on the remaining rows, released with the same noise",
    "the observer of the model did not observe the run; the parties themselves are not covered",
    "requests do not depend on released models, and each release has fresh noise",
    "the noise is in floating point, whose lowest bits are not covered",
)
