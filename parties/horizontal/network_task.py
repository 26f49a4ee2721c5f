"""Networks on rows, as the server and its clients teach them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from configs.horizontal import Horizontal
from parties.common.shared_randomness import Index
from parties.horizontal.engine.aggregation import with_inputs
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.engine.rounds import Course
from parties.horizontal.evaluation.metrics import figures
from parties.horizontal.evaluation.outcome import Outcome, Scores, read
from parties.horizontal.evaluation.whole_model import Lender
from parties.horizontal.local.client_data import requested
from parties.horizontal.local.learner import Learner, Shelf
from parties.horizontal.local.networks import build, fresh
from parties.horizontal.local.personal import has_own, personal
from parties.horizontal.methods.method import Method
from parties.horizontal.party import HorizontalParty
from parties.horizontal.registry import clusters, training, ways
from unlearning.audit.figure import Figure


class NetworkSubject:
    """See ``Subject``."""

    one_start = False
    libraries: tuple[str, ...] = ()

    def __init__(self, agreement: Horizontal) -> None:
        self._agreement = agreement
        self.own, self.clusters = has_own(agreement), clusters(agreement)
        self.history = agreement.history.every
        self.revert, self.conflicts = agreement.evaluation.revert, agreement.evaluation.conflicts

    def around(self, cohort: Cohort) -> Cohort:
        """See ``Subject``: by the mean."""
        return cohort

    def fresh(self, stream: str) -> Tensor:
        """See ``Subject``."""
        return fresh(self._agreement, stream)

    def training(self, stream: str) -> Course:
        """See ``Subject``."""
        return training(self._agreement, stream)

    def ways(self, rounds: int) -> Sequence[Method]:
        """See ``Subject``; requests come when the training is over, so it had all its rounds."""
        del rounds
        return ways(self._agreement)

    def read(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """See ``Subject``; where the agreement wants it, also by the model that a client lends."""
        return read(cohort, model, lender(self._agreement, leaving))

    def marks(self, name: str, model: Tensor) -> dict[str, Any]:
        """See ``Subject``: the server has no row."""
        del name, model
        return {}

    def figures(
        self, outcomes: Sequence[Outcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Figure]]:
        """See ``Subject``."""
        return figures(outcomes, {*leaving})

    def told(self) -> dict[str, Any]:
        """See ``Subject``."""
        agreement = self._agreement
        return {
            "partition": agreement.partition.kind,
            "personal": agreement.personal.kind,
            "revert": agreement.evaluation.revert,
            "aggregation": with_inputs(agreement),
        }

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """See ``Subject``."""
        network = build(self._agreement, "shape")
        vector_to_parameters(model.clone(), network.parameters())
        return dict(network.state_dict())


def lender(agreement: Horizontal, leaving: Sequence[Member]) -> Lender | None:
    """Who lends its model to those who leave; None: nobody, as agreed."""
    if agreement.evaluation.by is None or not leaving:
        return None
    stays = Member(agreement.evaluation.by, "retained")
    return Lender(stays, [each.client for each in leaving], training(agreement, "lent").lesson)


def taught(party: HorizontalParty) -> Learner:
    """The client of a party that took its seat."""
    network = build(party.agreement, "shape")
    return learner(party.agreement, party.name, network, party.shelf)


def learner(agreement: Horizontal, name: str, network: nn.Module, shelf: Shelf) -> Learner:
    """A client with its rows; the network is its to change."""
    plan = personal(agreement, network)
    means = partial(_meant, agreement, name)
    return Learner(name, network, shelf, agreement.seed, plan, meant=means)


def _meant(agreement: Horizontal, name: str, shelf: Shelf, request: str) -> Index | None:
    known = next((each for each in agreement.unlearn if each.name == request), None)
    return None if known is None else requested(agreement, known, name, shelf)
