"""Kinds of guarantee that an unlearning method can give, from exact to heuristic."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Guarantee(Enum):
    """The kind of guarantee of a method; the report lists it in the table of all methods."""

    EXACT = "exact"  # bit-equal to a run that never had the rows
    CERTIFIED = "certified"  # (ε, δ), under the listed assumptions
    DISTANCE_CERTIFIED = "distance-certified"  # a computed bound on the distance to Retrain
    AUDITED = "audited"  # passed the strong audits at a stated power
    KKT_REPORT = "KKT report"  # how well the constrained problem was solved; not that it forgot
    HEURISTIC = "heuristic"  # measurements only

    @property
    def rank(self) -> int:
        """Place in the order from the strongest to the weakest kind; 0 for the strongest."""
        return [*Guarantee].index(self)


# The strongest guarantee of each method of all modes that is not exact, by the name in the config.
STRONGEST: Final[Mapping[str, Guarantee]] = MappingProxyType(
    {
        "newton-cg": Guarantee.CERTIFIED,
        "fedora": Guarantee.KKT_REPORT,
    }
    | dict.fromkeys(
        (
            *("fine-tune", "gradient-ascent", "relabel", "top-only", "shrink-perturb"),
            *("ico-like", "cvfu", "scrub"),
            *("fedosd", "fedforget", "federaser", "fedrecovery", "mode", "ewc-sga", "fu-pga"),
            *("sfu", "adaclipping-like", "mimir", "fedmm", "fedgkt", "noisy-fine-tune"),
            *("grad-ascent", "grad-diff", "npo", "simnpo", "rmu", "primal-dual"),
        ),
        Guarantee.HEURISTIC,
    )
)
