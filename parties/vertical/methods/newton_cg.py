"""Newton-CG, the certified way: walk to the optimum of the rows that stay, and bound the rest."""

from dataclasses import asdict, dataclass
from typing import Any

from parties.vertical.engine.newton import Walk, Walked, distance, noise, release, walk_to_optimum
from parties.vertical.engine.split_model import Federation
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.certificate import distance_bound
from unlearning.guarantee import Guarantee

NAME = "newton-cg"
CLOSER = 1e-3  # than the bound: a reference for measuring true distances


@dataclass(frozen=True, slots=True)
class NewtonCg:
    """The distance to the retrained optimum is at most ‖∇F_r‖/λ, wherever the model came from."""

    name: str = NAME
    guarantee: Guarantee = Guarantee.DISTANCE_CERTIFIED

    def run(self, federation: Federation) -> Facts:
        """Walk from the original; with noise, where the bound was reached, it is (ε, δ)."""
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        bound = federation.agreement.newton.bound
        walk = Walk(NAME, vfl_pb2.UNLEARN, vfl_pb2.RETAIN, bound, keeps=True)
        walked = walk_to_optimum(federation, walk)
        reached = walked[-1].bound
        blurred = release(federation, walk, reached)
        return Facts(
            {"certificate": _certificate(federation, walked, blurred)},
            stopped="the bound was reached" if reached <= bound else "the effort was spent",
            guarantee=Guarantee.CERTIFIED if blurred else None,
        )


def _certificate(federation: Federation, walked: list[Walked], blurred: bool) -> dict[str, Any]:
    plan, rows = federation.agreement.newton, len(federation.rows.retain)
    classes = len(federation.agreement.labels.classes)
    return {
        "weight": plan.weight,
        "bound": walked[-1].bound,
        "wanted": plan.bound,
        "steps": [{"bound": each.bound, **asdict(each.step)} for each in walked],
        # Votes up and gradients down, 8 bytes a number, for each passive party.
        "product_bytes": 2 * 8 * rows * classes,
        "epsilon": plan.release.epsilon if plan.release and blurred else None,
        "delta": plan.release.delta if plan.release and blurred else None,
        "noise": noise(federation) if blurred else None,
        "assumes": list(ASSUMED) + (list(ASSUMED_OF_NOISE) if blurred else []),
    }


ASSUMED = (
    "no row entered the features but its own: ranges and vocabularies were declared",
    "all parties compute what the protocol says, in float64",
)
ASSUMED_OF_NOISE = (
    "the exact optimum on the remaining rows, released with the same noise, is what it is "
    "compared with",
    "who sees the model saw nothing of the run; the parties themselves are not covered",
    "requests do not depend on released models, and noise is drawn anew for each release",
    "the noise is in floating point, whose lowest bits are not covered",
)


def optimum(federation: Federation, stream: str, name: str) -> Facts:
    """Retrain nearer to the optimum than any bound that was asked for, and measure from there."""
    plan = federation.agreement.newton
    federation.fresh(stream, vfl_pb2.RETAIN, vfl_pb2.TRAIN)
    nearer = max(CLOSER * plan.bound, 10 * distance_bound(0.0, plan.weight))
    walk = Walk(name, vfl_pb2.TRAIN, vfl_pb2.RETAIN, nearer)
    walked = walk_to_optimum(federation, walk)
    found = federation.once(f"distances from {name}", list, lambda: _distances(federation))
    release(federation, walk, walked[-1].bound)
    epochs = [asdict(each.epoch) for each in walked]
    return Facts({"epochs": epochs, "bound": walked[-1].bound, "distances": found})


def _distances(federation: Federation) -> list[dict[str, Any]]:
    """How far the point of every kept step was from the present model."""
    prefix = f"{NAME}, step "
    slots = [slot for slot in federation.half.slots if slot.startswith(prefix)]
    return [
        {"step": int(slot.removeprefix(prefix)), "distance": distance(federation, slot)}
        for slot in slots
    ]
