"""Kinds of guarantee that an unlearning method can give, from exact to heuristic."""

from enum import Enum


class Guarantee(Enum):
    """The kind of guarantee of a method; the report lists it in the table of all methods."""

    EXACT = "exact"  # bit-equal to a run that never had the rows
    CERTIFIED = "certified"  # (ε, δ), under the listed assumptions
    DISTANCE_CERTIFIED = "distance-certified"  # a computed bound on the distance to Retrain
    AUDITED = "audited"  # passed the strong audits at a stated power
    KKT_REPORT = "KKT report"  # how well the constrained problem was solved; not that it forgot
    HEURISTIC = "heuristic"  # measurements only
