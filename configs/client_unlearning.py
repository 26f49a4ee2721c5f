"""The settings of client unlearning: one table a method, and what is compared."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.table import Count, Fraction, Name, Positive, Table
from configs.variants import Unlearning, Variant

ClientMethod: TypeAlias = Literal[
    "fedosd",
    "fedforget",
    "fine-tune",
    "federaser",
    "fedrecovery",
    "mode",
    "ewc-sga",
    "fu-pga",
    "sfu",
    "adaclipping-like",
    "mimir",
    "fedmm",
    "fedgkt",
    "knot",
]


class Lessons(Table):
    """What clients learn in a stage; what is absent is the training's."""

    learning_rate: Positive | None = None
    epochs: Count = 1
    batch: Count | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip: Positive | None = None  # norm of a step's gradient


class Stage(Lessons):
    """Rounds of one stage."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 20


class FedOsdPlan(Table):
    """FedOSD (arXiv 2412.20200)."""

    unlearn: Stage = Stage(rounds=100)
    recover: Stage = Stage(rounds=100)
    project: Literal["conditional", "always", "none"] = "conditional"
    variant: Literal["full", "ascent", "no-orthogonal", "common-descent"] = "full"


class FedForgetPlan(Table):
    """FedForget."""

    teach: Stage = Stage(rounds=10)
    second: Stage = Stage()  # makes teacher B; a clean one begins at random weights
    recover: Stage = Stage(rounds=0)
    mode: Literal["literal", "repel", "clean_teacher", "bad_teacher", "ga"] = "clean_teacher"
    keep: Positive = 0.93  # α; not of a bad teacher
    other: Positive = 0.245
    extra: Positive = 2.0  # λ₀
    fade: Positive = 0.3  # β
    most: Fraction = 0.5
    temperature: Positive = 2.0


class FedEraserPlan(Table):
    """FedEraser (Liu et al. 2021); needs [history]."""

    calibrate: Lessons = Lessons()  # a round of them for every one that was kept
    recover: Stage = Stage(rounds=0)


class FedRecoveryPlan(Table):
    """FedRecovery (Zhang et al. 2023); needs [history]."""

    recover: Stage = Stage()
    # Calibrated to hide, at (ε, β), as much as was taken out; without a bound known beforehand it
    # promises nothing. None: no noise.
    epsilon: Positive | None = None
    beta: Fraction = 1e-5


class MoDePlan(Table):
    """MoDe (Zhao et al. 2023)."""

    degrade: Stage = Stage(rounds=20)  # erasure: rounds that train M_d and mix it in
    guide: Stage = Stage(rounds=20)  # guidance, a round after each of those
    recover: Stage = Stage()
    momentum: Fraction = 0.95  # λ


class AscentPlan(Table):
    """EWC-SGA, FU-PGA, SFU: ascent at the leaving client, each held back in its way."""

    climb: Stage = Stage(rounds=20, clip=1.0)
    recover: Stage = Stage()
    stops: bool = True  # FU-PGA and SFU, at the loss of a uniform guess
    strength: Positive = 1.0  # of EWC-SGA
    far: Positive = 2.2  # of FU-PGA: the *squared* distance to the client's model that ends it
    energy: Fraction = 0.99  # of SFU


class DampeningPlan(Table):
    """AdaClipping-like."""

    recover: Stage = Stage()
    ratio: Positive = 10.0
    strength: Positive = 1.0


class MimirPlan(Table):
    """Mimir's unlearning; needs personal = {kind = "mimir"}."""

    # A round: so many rounds of the generator (epochs) on batches of images, at all who stay.
    distil: Stage = Stage(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: Stage = Stage(rounds=0)
    begin: Literal["random", "warm", "head-reset"] = "random"
    inner: Count = 10  # T_k
    divergence: Annotated[float, Field(ge=0)] = 5.0  # β
    attention: Annotated[float, Field(ge=0)] = 2.0  # γ
    temperature: Positive = 2.0
    behind: bool = True  # features behind the prompt, or before it
    sign: Literal["align", "repel", "orthogonal"] = "align"


class FedMmPlan(Table):
    """FedMM: error-maximising and -minimising noise (Chundawat et al. 2023)."""

    impair: Stage = Stage(rounds=1, learning_rate=0.02, batch=256)
    repair: Stage = Stage(rounds=5, learning_rate=0.01, batch=256)
    share: Fraction = 0.2  # of the leaving clients in a round that impairs
    noise_rows: Annotated[int, Field(ge=1, le=65_536)] = 256  # of every class
    noise_steps: Count = 40
    noise_rate: Positive = 0.1
    penalty: Annotated[float, Field(ge=0)] = 0.1


class FedGktPlan(Table):
    """FedGKT: gated knowledge transfer (Chundawat et al. 2023) at clients that stay."""

    distil: Stage = Stage(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: Stage = Stage(rounds=0)
    begin: Literal["random", "warm", "head-reset"] = "random"
    by: Literal["features", "classes"] = "features"  # with personal = {kind = "mimir"}, or any
    likeness: Annotated[float, Field(ge=-1, le=1)] = 0.9  # of features that pass, at most
    chance: Fraction = 0.01  # of the leaving classes, at most
    inner: Count = 10
    attention: Annotated[float, Field(ge=0)] = 250.0
    temperature: Positive = 1.0


class ClientVariant(Variant):
    """Of one of the ways of clients."""

    method: ClientMethod


class ClientUnlearning(Unlearning):
    """What is run for every request."""

    method: ClientMethod = "fedosd"
    compare: tuple[ClientMethod, ...] = ("fine-tune",)
    also: tuple[ClientVariant, ...] = ()
    retrains: Count = 1
    # The one client that stays whose model mimir, fedmm and fedgkt unlearn; None: all who stay.
    peer: Name | None = None
    fine_tune: Stage = Stage()
    fedosd: FedOsdPlan = FedOsdPlan()
    fedforget: FedForgetPlan = FedForgetPlan()
    federaser: FedEraserPlan = FedEraserPlan()
    fedrecovery: FedRecoveryPlan = FedRecoveryPlan()
    mode: MoDePlan = MoDePlan()
    ewc_sga: AscentPlan = AscentPlan()
    fu_pga: AscentPlan = AscentPlan()
    sfu: AscentPlan = AscentPlan()
    adaclipping_like: DampeningPlan = DampeningPlan()
    mimir: MimirPlan = MimirPlan()
    fedmm: FedMmPlan = FedMmPlan()
    fedgkt: FedGktPlan = FedGktPlan()
