"""From the name in a config to the method: the one place that knows them all."""

from typing import Final, assert_never

from configs.unlearning import MethodName
from parties.methods.cvfu import Cvfu
from parties.methods.fedora import FedOra
from parties.methods.fine_tune import FineTune
from parties.methods.gradient_ascent import GradientAscent
from parties.methods.ico_like import IcoLike
from parties.methods.method import ORIGINAL, Method
from parties.methods.newton_cg import NewtonCg
from parties.methods.relabel import Relabel
from parties.methods.retrain import Retrain
from parties.methods.sharded import Sharded
from parties.methods.shrink_perturb import ShrinkPerturb
from parties.methods.top_only import TopOnly

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
