"""The words for what a method promises about rows it forgot, from the strongest to none."""

from enum import Enum


class Guarantee(Enum):
    """A level of promise; it stands in every row of the report and never says more than it can."""

    EXACT = "exact"  # bit-equal to a run that never had the rows
    CERTIFIED = "certified"  # (ε, δ), under the assumptions that are listed with it
    DISTANCE_CERTIFIED = "distance-certified"  # a computed bound on the distance to Retrain
    AUDITED = "audited"  # passed the strong audits at a stated power
    KKT_REPORT = "KKT report"  # how well the constrained problem was solved; not that it forgot
    HEURISTIC = "heuristic"  # measured, and nothing else
