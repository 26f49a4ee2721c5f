"""Evaluation of one remaining client's whole model, which includes its personal parameters.

Notation of Mimir (paper 003): C_r = a remaining client; C_f = the leaving client; D_r and D_f =
their rows. In Table III of the paper, the cell (C_r, C_f) shows two accuracies of C_r's whole
model: on D_r and on D_f.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from parties.horizontal.engine.aggregation import add_personal_parameters
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.local.local_task import LocalTask, RowMetrics

BY_CLIENT_FORGOTTEN: Final = "by_client_forgotten"
BY_CLIENT_RETAINED: Final = "by_client_retained"


@dataclass(frozen=True, slots=True)
class WholeModelEvaluation:
    """Evaluates the whole model of C_r, which sends its personal parameters to the server."""

    client: Member  # C_r
    leaving: Sequence[str]  # C_f, one client or several
    # A local task; its settings do not affect the result, because nothing is trained.
    task: LocalTask

    def evaluate(self, cohort: Cohort, model: Tensor) -> dict[str, dict[str, RowMetrics]]:
        """Return the metrics of C_r's whole model on D_f and on D_r; ``model`` is ``[d]``."""
        whole = add_personal_parameters(cohort, [self.client], self.task, model)
        own = [self.client.client]
        return {
            BY_CLIENT_FORGOTTEN: dict(cohort.evaluate(self.leaving, "forgotten", whole, "sent")),
            BY_CLIENT_RETAINED: dict(cohort.evaluate(own, "retained", whole, "sent")),
        }
