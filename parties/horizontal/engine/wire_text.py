"""Lessons about texts as the wire has them."""

from math import inf
from typing import Literal, cast, get_args

from parties.horizontal.local.text_task import Objective, TextLesson
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

OBJECTIVES: dict[Objective, "vfl_pb2.TextObjective"] = {
    "learn": vfl_pb2.LEARN_TEXTS,
    "grad-ascent": vfl_pb2.GRAD_ASCENT,
    "grad-diff": vfl_pb2.GRAD_DIFF,
    "npo": vfl_pb2.NPO,
    "simnpo": vfl_pb2.SIMNPO,
    "rmu": vfl_pb2.RMU,
    "primal-dual": vfl_pb2.PRIMAL_DUAL,
}
_OBJECTIVES = {word: each for each, word in OBJECTIVES.items()}
Optimiser = Literal["adamw", "sgd"]


def text_said(lesson: TextLesson) -> vfl_pb2.Text:
    """As the server says it."""
    return vfl_pb2.Text(
        objective=OBJECTIVES[lesson.objective],
        optimiser=lesson.optimiser,
        gamma=lesson.gamma,
        alpha=lesson.alpha,
        beta=lesson.beta,
        delta=lesson.delta,
        diverge=lesson.retain == "kl",
        stops=lesson.stops,
        layer=lesson.layer,
        steering=lesson.steering,
        price=lesson.price,
        ceiling=lesson.ceiling,
    )


def text_understood(said: vfl_pb2.Text) -> TextLesson:
    """As the client hears it.

    Raises:
        RemoteProtocolError: an objective that there is not, or a number that cannot be used.
    """
    if said.objective not in _OBJECTIVES or said.optimiser not in get_args(Optimiser):
        raise RemoteProtocolError("teaches texts by an objective or an optimiser that is unknown")
    weights = (said.gamma, said.alpha, said.delta, said.steering, said.price)
    if not all(0 <= each < inf for each in weights):
        raise RemoteProtocolError("teaches texts with a weight that is negative or not finite")
    if not (0 < said.beta < inf and 0 < said.ceiling < inf):
        raise RemoteProtocolError("teaches texts with a beta or a ceiling that is not positive")
    return TextLesson(
        objective=_OBJECTIVES[said.objective],
        optimiser=cast(Optimiser, said.optimiser),
        gamma=said.gamma,
        alpha=said.alpha,
        beta=said.beta,
        delta=said.delta,
        retain="kl" if said.diverge else "nll",
        stops=said.stops,
        layer=said.layer,
        steering=said.steering,
        price=said.price,
        ceiling=said.ceiling,
    )
