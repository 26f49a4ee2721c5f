"""Levels of guarantee: how strong a guarantee an unlearning method gives, down to none."""

from enum import Enum


class Guarantee(Enum):
    """How strong a guarantee a method gives, shown in every row of the report's method table."""

    EXACT = "exact"  # bit-equal to a run that never had the rows
    CERTIFIED = "certified"  # (ε, δ), under the listed assumptions
    DISTANCE_CERTIFIED = "distance-certified"  # a computed bound on the distance to Retrain
    AUDITED = "audited"  # passed the strong audits at a stated power
    KKT_REPORT = "KKT report"  # how well the constrained problem was solved; not that it forgot
    HEURISTIC = "heuristic"  # measurements only
