"""Unlearning methods of the vertical mode on a population of models, in one process."""

from typing import Any, cast

from models.ensemble import Ensemble
from parties.common.errors import PolicyError
from parties.experiments.population.run import PopulationRun, with_agreement
from parties.experiments.population.trained import TrainedPopulation
from parties.requests.driver import NOT_FINITE, Method, carry_out
from parties.vertical.methods.fedora import FedoraSettings
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.registry import METHODS


def run_population_method(
    trained: TrainedPopulation, way: str, plan: FedoraSettings | None = None
) -> Ensemble:
    """Return the models after one method; ``plan`` replaces the agreement's FedORA settings.

    Raises:
        PolicyError: a population does not support these settings of FedORA.
        ValueError: the parameters of a model are not finite.
    """
    agreement = trained.pooled.agreement
    if plan is not None:
        unlearning = agreement.unlearning.model_copy(update={"fedora": plan})
        agreement = agreement.model_copy(update={"unlearning": unlearning})
    if way == "fedora":
        require_supported(agreement.unlearning.of(FedoraSettings))
    run = PopulationRun(with_agreement(trained, agreement))
    method = cast("Method[PopulationRun, Any, MethodResult]", METHODS[way])
    if carry_out(method, run).stopped == NOT_FINITE:
        raise ValueError("the parameters of a model are not finite")
    return run.models


def require_supported(plan: FedoraSettings) -> None:
    """Refuse settings with a different step size, or a different vector of duals, per model.

    Raises:
        PolicyError: a population does not support these settings.
    """
    if plan.dual == "literal" or (plan.adaptive and plan.primal == "optimiser"):
        raise PolicyError(
            "a population does not support these settings of FedORA",
            "set dual = 'scalar'; with primal = 'optimiser', also set adaptive = false",
        )
