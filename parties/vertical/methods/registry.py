"""From the name in a config to the method: the one place that knows them all."""

from typing import Final, assert_never

from configs.unlearning import MethodName
from parties.vertical.methods.cvfu import Cvfu
from parties.vertical.methods.fedora import FedOra
from parties.vertical.methods.fine_tune import FineTune
from parties.vertical.methods.gradient_ascent import GradientAscent
from parties.vertical.methods.ico_like import IcoLike
from parties.vertical.methods.method import ORIGINAL, Method
from parties.vertical.methods.newton_cg import NewtonCg
from parties.vertical.methods.relabel import Relabel
from parties.vertical.methods.retrain import Retrain
from parties.vertical.methods.sharded import Sharded
from parties.vertical.methods.shrink_perturb import ShrinkPerturb
from parties.vertical.methods.top_only import TopOnly

PAIRED: Final = "retrain-paired"


def method(name: MethodName) -> Method:  # noqa: C901, PLR0911  one for each name
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
        case "relabel":
            return Relabel()
        case "top-only":
            return TopOnly()
        case "shrink-perturb":
            return ShrinkPerturb()
        case "ico-like":
            return IcoLike()
        case "cvfu":
            return Cvfu()
        case "retrain-paired":
            return Retrain(PAIRED, ORIGINAL)
    assert_never(name)


def independent(count: int) -> list[Method]:
    """Retrains with random starts of their own."""
    names = ["retrain", *(f"retrain-{number}" for number in range(2, count + 1))]
    return [Retrain(name, name) for name in names]
