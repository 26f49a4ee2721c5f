"""The task of the horizontal mode, for server and clients: train a network on rows."""

from collections.abc import Container, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from configs.horizontal import HorizontalAgreement
from parties.common.shared_randomness import Index
from parties.horizontal.engine.aggregation import horizontal_aggregation_claim
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.evaluation.metrics import request_metrics
from parties.horizontal.evaluation.outcome import ModelOutcome, Scores
from parties.horizontal.evaluation.whole_model import WholeModelEvaluation
from parties.horizontal.local.client_data import left_out_classes, requested_rows
from parties.horizontal.local.local_training import load_vector
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network, initial_parameters
from parties.horizontal.local.personalisation import has_personal_parameters, personalisation_of
from parties.horizontal.local.rows import ClientData
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.party import HorizontalParty
from parties.horizontal.registry import training_clusters, unlearning_methods
from parties.horizontal.task import ServerTask
from parties.report.sentences import left_out_sentence
from unlearning.audit.metric import Metric


class NetworkServerTask(ServerTask):
    """The server's part of a run in which clients train a network on their rows."""

    def __init__(self, agreement: HorizontalAgreement) -> None:
        self._agreement = agreement
        self.has_personal = has_personal_parameters(agreement)
        self.clusters = training_clusters(agreement)
        self.history_every = agreement.history.every
        self.revert_rounds = agreement.evaluation.revert
        self.measures_conflicts = agreement.evaluation.conflicts

    def initial_model(self, stream: str) -> Tensor:
        """Return the initial model, ``[d]``, sampled with the random stream ``stream``."""
        return initial_parameters(self._agreement, stream)

    def training_plan(self, stream: str) -> RoundPlan:
        """Return the plan of the training rounds, with the random stream ``stream``."""
        return network_training_plan(self._agreement, stream)

    def methods(self, rounds: int) -> Sequence[AnyClientMethod]:
        """Return the methods of a request.

        ``rounds`` is not used, because the agreement fixes the number of rounds of each method.
        """
        del rounds
        return unlearning_methods(self._agreement)

    def further_scores(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """Return the metrics of one client's model ``[d]`` with its personal parameters.

        The client is ``evaluation.evaluator``; without this key, there are no such metrics.
        """
        whole_model = whole_model_evaluation(self._agreement, leaving)
        return {} if whole_model is None else whole_model.evaluate(cohort, model)

    def evaluate_trained(self, cohort: Cohort, model: Tensor) -> Scores:
        """Return the metrics of a trained model, ``[d]``, on the test rows of all clients."""
        return {"test": dict(cohort.evaluate(cohort.clients, "test", model))}

    def metrics(
        self, outcomes: Sequence[ModelOutcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Metric]]:
        """Return the metrics of all models of a request, by model name."""
        return request_metrics(outcomes, {*leaving})

    def run_facts(self) -> dict[str, Any]:
        """Return this task's entries of a run's record, such as the partition and privacy claim."""
        agreement = self._agreement
        return {
            "partition": agreement.partition.kind,
            "left_out": left_out_classes(agreement),
            "personal": agreement.personal.kind,
            "revert": agreement.evaluation.revert,
            "aggregation": horizontal_aggregation_claim(agreement),
        }

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return a model, ``[d]``, as tensors by name, of any shape."""
        network = build_whole_network(self._agreement, "shape")
        load_vector(network, model)
        return dict(network.state_dict())


def whole_model_evaluation(
    agreement: HorizontalAgreement, leaving: Sequence[Member]
) -> WholeModelEvaluation | None:
    """Return the evaluation of one client's model, including its personal parameters.

    The client is ``evaluation.evaluator``. The result is None if the agreement does not set this
    key, or if the request names rows of no client.
    """
    if agreement.evaluation.evaluator is None or not leaving:
        return None
    remains = Member(agreement.evaluation.evaluator, "retained")
    task = network_training_plan(agreement, "lent").task
    return WholeModelEvaluation(remains, [each.client for each in leaving], task)


def network_server_task(party: HorizontalParty) -> NetworkServerTask:
    """Return the server's part of a run that trains networks on rows; warn of unused classes."""
    if classes := left_out_classes(party.agreement):
        party.progress.warn(left_out_sentence(classes))
    return NetworkServerTask(party.agreement)


def network_client_task(party: HorizontalParty) -> NetworkClientTask:
    """Return a client's part of a run that trains networks on rows."""
    network = build_whole_network(party.agreement, "shape")
    agreement, listed = party.agreement, party.listed_rows
    return build_network_client(agreement, party.name, network, party.client_data, listed)


def build_network_client(
    agreement: HorizontalAgreement,
    name: str,
    network: nn.Module,
    client_data: ClientData,
    listed: Mapping[str, Container[bytes]] = MappingProxyType({}),
) -> NetworkClientTask:
    """Build a client with its rows; the client uses ``network`` and changes its parameters.

    ``listed`` are the IDs of the rows of the requests whose rows are known by ID.
    """
    plan = personalisation_of(agreement, network)
    select_rows = partial(_select_rows, agreement, name, listed)
    return NetworkClientTask(
        name, network, client_data, agreement.seed, plan, select_rows=select_rows
    )


def _select_rows(
    agreement: HorizontalAgreement,
    name: str,
    listed: Mapping[str, Container[bytes]],
    client_data: ClientData,
    request: str,
) -> Index | None:
    known = next((each for each in agreement.unlearn if each.name == request), None)
    if known is None:
        return None
    return requested_rows(agreement, known, name, client_data, listed.get(request))
