"""Forgetting scores of answers: the S_u that a constraint on a language model holds up.

Letters of FedORA (paper 004): S_j = score of one forgotten answer, to be *raised*, S_u = their
mean, ω = ``weight``; besides M = ``ceiling``, β = ``sharpness``, V = vocabulary. A score must be
bounded: what is unbounded can meet any mean by wrecking a few answers.
"""

import math
from dataclasses import dataclass
from functools import partial

from torch import Tensor
from torch.nn.functional import logsigmoid

from unlearning.llm.likelihood import Nll
from unlearning.llm.rows import by_row, check_rows, label_logits
from unlearning.objectives import forgetting_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The shape of the preference score.

    Attributes:
        ceiling: M, in nats a token: no answer counts for more than this. A high quantile of
            answers never seen is a good one, log V (a uniform guess) the highest sensible.
        sharpness: β; the score bends within about 1/β nats of the ceiling.
    """

    ceiling: float
    sharpness: float = 4.5

    def __post_init__(self) -> None:
        """Refuse a score that could not rise.

        Raises:
            ValueError: ceiling or sharpness is not positive and finite.
        """
        if not (0 < self.ceiling < math.inf and 0 < self.sharpness < math.inf):
            raise ValueError(f"{self}: ceiling and sharpness must be positive and finite")


def preference_scores(forget: Nll, shape: Preference) -> Tensor:
    """Return S_j, ``[batch]``: the mean nats a token of an answer, saturating at the ceiling.

    Far below the ceiling it is NLL/|y| and rises with it one to one; above, its slope dies away as
    σ(β (M − NLL/|y|)), so nothing drives an answer on. It is SimNPO's term at δ = M, halved, turned
    and lifted: mean S = M − ½ simnpo(β, M).
    """
    excess = forget.mean - shape.ceiling
    return shape.ceiling + logsigmoid(shape.sharpness * excess) / shape.sharpness


def entropy_scores(logits: Tensor, labels: Tensor, weight: float = 1.0) -> Tensor:
    """Return S_j, ``[batch]``: FedORA's score of each answer token, averaged over the answer.

    Between −ω log V (sure of every token) and +ω log V (uniform); no label's value is used, only
    where labels are.

    Raises:
        ValueError: other shapes, or a row without a label token.
    """
    check_rows(logits, labels)
    # FedORA Eq 28 at every label token: ω (2 H − log V).
    return by_row(partial(_mean_score, weight), logits, labels)


def highest_entropy_score(vocabulary: int, weight: float = 1.0) -> float:
    """Return ω log V, which no entropy score exceeds."""
    return weight * math.log(vocabulary)


def _mean_score(weight: float, logits: Tensor, labels: Tensor) -> Tensor:
    return forgetting_scores(label_logits(logits, labels), weight).mean()
