"""Settings of the unlearning methods with a guarantee: Newton's method, and sharding."""

from typing import Annotated

from pydantic import Field

from configs.table import ConfigTable, Count, Positive


class ReleaseSettings(ConfigTable):
    """Noise on the released model for an (ε, δ) certificate; the noise grows with newton.bound."""

    epsilon: Annotated[float, Field(gt=0, le=100)]  # ε of the certificate
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5  # δ of the certificate


class NewtonSettings(ConfigTable):
    """Newton's method with conjugate gradients, for linear bottom models and a convex loss."""

    weight: Positive = 1e-3  # weight λ of the L2 penalty on all parameters, biases included
    bound: Positive = 1e-5  # certified distance B_max to the optimum at which the method ends
    steps: Count = 30  # largest number of Newton steps
    # Largest number of Hessian-vector products in one run; each product reveals one more linear
    # function of every party's rows to the active party.
    products: Count = 2000
    # Relative residual at which the linear system of a Newton step counts as solved.
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    release: ReleaseSettings | None = None  # noise on the released model; absent: no noise


class ShardingSettings(ConfigTable):
    """Sharding: several small models vote; only models trained on forgotten rows are retrained."""

    shards: Annotated[int, Field(ge=1, le=256)] = 1  # number of models; 1: a single model
