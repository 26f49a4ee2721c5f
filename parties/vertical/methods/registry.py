"""The registry of unlearning methods: from the name in a config to the method."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from configs.unlearning import MethodName
from parties.requests.driver import Method
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.network_run import NetworkRun
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.fedora import FedOraMethod
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.method import PAIRED, MethodResult
from parties.vertical.methods.newton_cg import NewtonCgMethod
from parties.vertical.methods.relabel import RelabelMethod
from parties.vertical.methods.retrain import RetrainMethod
from parties.vertical.methods.sharded import ShardedMethod
from parties.vertical.methods.shrink_perturb import ShrinkPerturbMethod
from parties.vertical.methods.top_only import TopOnlyMethod

AnyMethod: TypeAlias = Method[NetworkRun, Any, MethodResult]
METHODS: Final[Mapping[MethodName, AnyMethod]] = {
    "fedora": FedOraMethod(),
    "fine-tune": FineTuneMethod(),
    "gradient-ascent": GradientAscentMethod(),
    "newton-cg": NewtonCgMethod(),
    "sharded": ShardedMethod(),
    "relabel": RelabelMethod(),
    "top-only": TopOnlyMethod(),
    "shrink-perturb": ShrinkPerturbMethod(),
    "ico-like": IcoLikeMethod(),
    "cvfu": CvfuMethod(),
    "retrain-paired": RetrainMethod(PAIRED, ORIGINAL),
}


def vertical_method(name: MethodName) -> AnyMethod:
    """The method with the name ``name`` in the config."""
    return METHODS[name]


def independent_retrains(count: int) -> list[AnyMethod]:
    """Make ``count`` methods; each trains one Retrain model with its own random streams."""
    names = ["retrain", *(f"retrain-{number}" for number in range(2, count + 1))]
    return [RetrainMethod(name, name) for name in names]
