"""From the name in a config to the method: the one place that knows them all."""

from typing import Final, assert_never

from configs.agreement import MethodName
from parties.methods.fedora import FedOra
from parties.methods.fine_tune import FineTune
from parties.methods.gradient_ascent import GradientAscent
from parties.methods.method import ORIGINAL, Method
from parties.methods.newton_cg import NewtonCg
from parties.methods.retrain import Retrain
from parties.methods.sharded import Sharded

PAIRED: Final = "retrain-paired"


def method(name: MethodName) -> Method:
    """The method of a config's name."""
    match name:
        case "fedora":
            return FedOra()
        case "fine-tune":
            return FineTune()
        case "gradient-ascent":
            return GradientAscent()
        case "newton-cg":
            return NewtonCg()
        case "sharded":
            return Sharded()
        case "retrain-paired":
            return Retrain(PAIRED, ORIGINAL)
    assert_never(name)


def independent(count: int) -> list[Method]:
    """Retrains with random starts of their own."""
    names = ["retrain", *(f"retrain-{number}" for number in range(2, count + 1))]
    return [Retrain(name, name) for name in names]
