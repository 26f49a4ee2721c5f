"""Settings of the ways to forget that promise something: the convex head, and the shards."""

from typing import Annotated

from pydantic import Field

from configs.table import Count, Positive, Table


class Release(Table):
    """Noise that makes a certified distance (ε, δ); its scale follows from ``newton.bound``."""

    epsilon: Annotated[float, Field(gt=0, le=100)]
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5


class Newton(Table):
    """Newton's method with conjugate gradients, for a convex head over linear bottoms."""

    weight: Positive = 1e-3  # λ, on all parameters, biases included
    bound: Positive = 1e-5  # B_max: the certified distance to the optimum at which it ends
    steps: Count = 30
    # Products with the Hessian in one run: each shows the active party one more linear view of
    # every party's rows.
    products: Count = 2000
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 1e-3  # of each step's linear system
    release: Release | None = None  # None: the model is released as it is


class Sharding(Table):
    """Several small models that vote, so that a request trains again only those it touches."""

    shards: Annotated[int, Field(ge=1, le=256)] = 1  # 1: one model, as ever
