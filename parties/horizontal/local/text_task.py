"""How a lesson about texts is learned, or how texts are forgotten.

Letters as in ``unlearning.llm``: γ = ``gamma``, weight of the forgetting term, α = ``alpha``, of
the retain term; β and δ of NPO and SimNPO; Ω = ``price``.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Objective: TypeAlias = Literal[
    "learn", "grad-ascent", "grad-diff", "npo", "simnpo", "rmu", "primal-dual"
]

TWO_TERMS: Final = ("grad-diff", "npo", "simnpo", "primal-dual")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLesson:
    """The objective of clients with forgotten texts; the others learn theirs.

    Attributes:
        retain: the retain term, cross entropy or the divergence from the model before.
        stops: whether gradient ascent ends at the loss of a uniform guess, and not with its epochs.
        layer: RMU's, from 1; 0: the middle one.
        steering: RMU's c.
        ceiling: of the preference score, in nats a token.
    """

    objective: Objective = "learn"
    optimiser: Literal["adamw", "sgd"] = "adamw"
    gamma: float = 1.0
    alpha: float = 1.0
    beta: float = 0.1
    delta: float = 0.0
    retain: Literal["nll", "kl"] = "nll"
    stops: bool = False
    layer: int = 0
    steering: float = 2.0
    price: float = 0.0
    ceiling: float = 10.0

    @property
    def retains(self) -> bool:
        """Whether as many retained texts as forgotten ones are learned in the same step."""
        return self.objective in (*TWO_TERMS, "rmu")

    @property
    def looks_back(self) -> bool:
        """Whether the model before unlearning is looked at."""
        return self.objective in ("npo", "rmu") or (
            self.retain == "kl" and self.objective in TWO_TERMS
        )
