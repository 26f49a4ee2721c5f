"""The suite: all figures of all models of one request, beside Retrain, as plain JSON values."""

from collections.abc import Callable
from typing import Any

from parties.vertical.evaluation.backdoor import backdoor
from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.distances import distances
from parties.vertical.evaluation.forgetting import forgetting
from parties.vertical.evaluation.membership import membership
from parties.vertical.evaluation.model_outputs import Seen, is_independent
from parties.vertical.evaluation.two_samples import two_samples
from parties.vertical.evaluation.updates import party_views, update_difference
from parties.vertical.evaluation.utility import utility
from unlearning.audit.figure import Measured, table

Subject = Callable[[Seen, Outcome], dict[str, Measured]]
_OF_ALL: tuple[Subject, ...] = (utility, forgetting, membership, distances, two_samples, backdoor)
_OF_UPDATES: tuple[Subject, ...] = (update_difference, party_views)


def suite(seen: Seen) -> dict[str, list[dict[str, Any]]]:
    """Every figure of every model, by the model's name."""
    measured = {each.name: _measured(seen, each) for each in seen.found.outcomes}
    retrains = [each.name for each in seen.retrains]
    return {
        name: [figure.plain() for figure in figures]
        for name, figures in table(measured, retrains).items()
    }


def _measured(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    figures: dict[str, Measured] = {}
    for subject in _OF_ALL:
        figures |= subject(seen, outcome)
    # Attacks that learn anew for every model: on what is delivered, and on its Retrain column.
    if outcome.name == seen.found.chosen or is_independent(outcome.name):
        for subject in _OF_UPDATES:
            figures |= subject(seen, outcome)
    return figures
