"""FedORA's constraint on forgotten texts, with one price for the whole federation.

Letters as in ``unlearning.llm.primal_dual``: S_u = mean nats a token of forgotten answers, γ = the
threshold, Ω = the price, σ = its step, M = the ceiling of an answer's score. Clients with forgotten
texts descend L_r − Ω S_u, the others L_r; after every round S_u of the mean model is measured and
the price ascends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.cohort import SMALLER, Score, require_finite
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.score_histogram import spread
from parties.horizontal.methods.recover import recover
from parties.language.methods.by_objective import Who, drawn, members, slots_of
from unlearning.guarantee import Guarantee
from unlearning.llm.primal_dual import ScoreSum, ascend, init

NO_REFERENCE = "primal-dual takes its threshold from texts that nobody learned; there are none"
HOLD_SOME = (
    "a greater held, so that some client keeps two texts apart, or "
    "unlearning.primal_dual.threshold = 4.0"
)
ABOVE = 1.5  # M / γ, so that the threshold can be met and no answer counts for much more


@dataclass(frozen=True, slots=True)
class PrimalDual:
    """The constraint S_u ≥ γ, solved with FedORA's dual.

    Attributes:
        threshold: γ; None: the mean score, under the original, of texts from which nobody learned
            and with which nothing is measured; M is then above their mean nats.
    """

    unlearn: Course
    recover: Course
    step_size: float
    price: float
    most: float
    threshold: float | None = None
    who: Who = "all"
    name: str = "primal-dual"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``.

        Raises:
            PolicyError: there is no threshold, and no text to take it from.
            Diverged: the model is no longer finite, or its outputs are not.
        """
        model = scene.original
        threshold, ceiling = self._levels(scene)
        dual = init(threshold, ceiling, self.price, self.most)
        gone = [each.client for each in scene.leaving]
        for number in range(self.unlearn.rounds):
            lesson = self.unlearn.at(number)
            if lesson.text is not None:
                text = replace(lesson.text, price=dual.price, ceiling=ceiling)
                lesson = replace(lesson, text=text)
            slots = slots_of(scene, model, lesson)
            chosen = drawn(self.unlearn, number, members(scene, self.who), scene.leaving)
            mean = scene.cohort.mean(chosen, lesson, slots)
            model = model + mean.change.to(model.dtype)
            require_finite(model)
            seen = _sums(_finite(scene.cohort.read(gone, "forgotten", model)), ceiling)
            turn = Turn("unlearn", number, model, mean.loss, score=_mean(seen))
            scene.tell(replace(turn, threshold=threshold, price=dual.price))
            dual = ascend(dual, seen, self.step_size)
        return recover(scene, model, self.recover)

    def _levels(self, scene: Scene) -> tuple[float, float]:
        """γ and M. Both sides of the constraint are means of one score: what unseen texts reach."""
        if self.threshold is not None:
            return self.threshold, ABOVE * self.threshold
        here = sorted({each.client for each in (*scene.staying, *scene.leaving)})
        unseen = _finite(scene.cohort.read(here, "validation", scene.original))
        rows = sum(each.rows for each in unseen.values())
        if not rows:
            raise PolicyError(NO_REFERENCE, HOLD_SOME)
        ceiling = ABOVE * sum(each.loss for each in unseen.values()) / rows
        together = sum(_sums(unseen, ceiling), ScoreSum())
        return together.total / together.rows, ceiling


def _finite(found: Mapping[str, Score]) -> Mapping[str, Score]:
    """The scores, which counts of odds would show as the least where they are no numbers.

    Raises:
        Diverged: one is not finite.
    """
    wild = sorted(name for name, each in found.items() if not isfinite(each.loss))
    if wild:
        raise Diverged(f"the model's outputs are not finite at {', '.join(wild[:10])}", SMALLER)
    return found


def _mean(seen: Sequence[ScoreSum]) -> float | None:
    """S_u; None where nobody said anything of it."""
    together = sum(seen, ScoreSum())
    return together.total / together.rows if together.rows else None


def _sums(found: Mapping[str, Score], ceiling: float) -> list[ScoreSum]:
    """Each client's scores, no answer's beyond the ceiling, from the counts of their odds.

    An answer of probability p has φ = log p − log(1 − p), and −log p = log(1 + exp(−φ)).
    """
    told = []
    for each in found.values():
        scores = np.minimum(np.logaddexp(0.0, -spread(each.odds)), ceiling)
        told.append(ScoreSum(float(scores.sum()), each.rows))
    return told
