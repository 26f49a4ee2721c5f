"""Unlearning methods of the vertical mode on a population of models, in one process."""

from dataclasses import dataclass
from typing import Any, cast

from configs.agreement import VerticalAgreement
from models.ensemble import Ensemble
from parties.common.errors import PolicyError
from parties.experiments.population.run import PopulationRun, with_agreement
from parties.experiments.population.trained import TrainedPopulation
from parties.requests.driver import NOT_FINITE, Method, carry_out
from parties.vertical.methods.fedora import FedoraSettings
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.registry import METHODS


@dataclass(frozen=True, slots=True)
class UnlearnedPopulation:
    """The models after a method."""

    models: Ensemble
    # Number of rows of each model whose embeddings would cross the network, once for each time.
    rows_embedded: int


def run_population_method(
    trained: TrainedPopulation, way: str, agreement: VerticalAgreement | None = None
) -> UnlearnedPopulation:
    """Return the models after one method; ``agreement`` has other settings of the method.

    Raises:
        PolicyError: a population does not support these settings of FedORA.
        ValueError: the parameters of a model are not finite.
    """
    agreed = agreement or trained.pooled.agreement
    if way == "fedora":
        require_supported(agreed.unlearning.of(FedoraSettings))
    method = cast("Method[PopulationRun, Any, MethodResult]", METHODS[way])
    early = method.needs(agreed).early_checkpoint
    run = PopulationRun(with_agreement(trained, agreed), early)
    if carry_out(method, run).stopped == NOT_FINITE:
        raise ValueError("the parameters of a model are not finite")
    return UnlearnedPopulation(run.models, run.rows_embedded)


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
