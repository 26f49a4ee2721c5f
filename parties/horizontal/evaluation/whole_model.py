"""A client's whole model, told by it: what is its own included, so that others can measure it.

Letters of Mimir (paper 003): C_r = a client that stays, C_f = the one that leaves, D_r and D_f =
their rows. A cell (C_r, C_f) of its Table III is the whole model of C_r on D_r and on D_f.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Member, Score
from parties.horizontal.local.local_task import Lesson

FORGOTTEN: Final = "by_client_forgotten"
RETAINED: Final = "by_client_retained"


@dataclass(frozen=True, slots=True)
class Lender:
    """Who lends its model, and to whom.

    Attributes:
        client: C_r.
        to: C_f, one or several.
        lesson: lends its settings, of which none is used.
    """

    client: Member
    to: Sequence[str]
    lesson: Lesson

    def read(self, cohort: Cohort, model: Tensor) -> dict[str, dict[str, Score]]:
        """How C_r's whole model does on D_f and on D_r, by the names of these figures."""
        told = whole(cohort, [self.client], self.lesson, model)
        own = [self.client.client]
        return {
            FORGOTTEN: dict(cohort.read(self.to, "forgotten", told, "sent")),
            RETAINED: dict(cohort.read(own, "retained", told, "sent")),
        }


def whole(cohort: Cohort, members: Sequence[Member], lesson: Lesson, model: Tensor) -> Tensor:
    """``model`` with what the members have of their own, ``[d]``: of several, the mean."""
    own = cohort.mean(members, replace(lesson, aim="descriptor"), {"model": model})
    return model + own.change.to(model.dtype)
