"""Client unlearning: one table of settings per method, and the methods to compare."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.table import ConfigTable, Count, Fraction, Name, Positive
from configs.variants import MethodVariant, UnlearningSettingsBase

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


class LocalTrainingSettings(ConfigTable):
    """Settings of the clients' local training in one stage of a method."""

    # Learning rate; absent: the value of training.learning_rate.
    learning_rate: Positive | None = None
    epochs: Count = 1  # local epochs in a round
    batch: Count | None = None  # rows of a batch; absent: the value of training.batch
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip: Positive | None = None  # largest norm of a step's gradient; absent: no clipping


class StageSettings(LocalTrainingSettings):
    """Settings of one stage of a method; a stage consists of rounds."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 20


class FedOsdPlan(ConfigTable):
    """FedOSD (arXiv 2412.20200)."""

    unlearn: StageSettings = StageSettings(rounds=100)  # rounds that unlearn
    recover: StageSettings = StageSettings(rounds=100)  # rounds of recovery
    # Which gradients of the recovery are projected; a projected gradient does not undo the
    # unlearning. conditional: only gradients that would undo the unlearning. always: all
    # gradients. none: no gradient.
    project: Literal["conditional", "always", "none"] = "conditional"
    # Ablation. full: the whole method. ascent: gradient ascent instead of the unlearning loss.
    # no-orthogonal: without the orthogonality condition. common-descent: with a common descent
    # direction.
    variant: Literal["full", "ascent", "no-orthogonal", "common-descent"] = "full"


class FedForgetPlan(ConfigTable):
    """FedForget: distillation with two teachers at the leaving client."""

    distil: StageSettings = StageSettings(rounds=10)  # rounds of distillation
    # Rounds that train teacher B; with mode = "clean_teacher" the training starts from random
    # weights.
    teacher_b: StageSettings = StageSettings()
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Loss and teacher B. literal: the loss as printed in the paper. repel: the loss of the authors'
    # code. clean_teacher: a teacher that was trained without the forgotten rows. bad_teacher: a
    # teacher with random weights. ga: gradient ascent without teacher B.
    mode: Literal["literal", "repel", "clean_teacher", "bad_teacher", "ga"] = "clean_teacher"
    # Weight α of teacher A, the trained model; unused with mode = "bad_teacher".
    weight_a: Positive = 0.93
    weight_b: Positive = 0.245  # weight of teacher B
    leaving_factor: Positive = 2.0  # factor λ₀ of the leaving client's weight in the first round
    decay: Positive = 0.3  # decay β of leaving_factor per round
    max_weight: Fraction = 0.5  # largest weight of the leaving client in the mean update
    temperature: Positive = 2.0


class FedEraserPlan(ConfigTable):
    """FedEraser (Liu et al. 2021); needs saved updates, so history.every must be above 0."""

    # Local training in the calibration, which has one round for every saved round.
    calibrate: LocalTrainingSettings = LocalTrainingSettings()
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery


class FedRecoveryPlan(ConfigTable):
    """FedRecovery (Zhang et al. 2023); needs saved updates, so history.every must be above 0."""

    recover: StageSettings = StageSettings()  # rounds of recovery
    # ε of the noise; absent: no noise. The scale of the noise follows from the norm of the removed
    # contribution. The noise gives no guarantee, because this norm has no bound known in advance.
    epsilon: Positive | None = None
    beta: Fraction = 1e-5  # failure probability β of the noise


class MoDePlan(ConfigTable):
    """MoDe (Zhao et al. 2023): in rounds of erasure, averages the model with a second model M_d."""

    # Rounds of erasure, which train the degradation model M_d and mix M_d into the model.
    degrade: StageSettings = StageSettings(rounds=20)
    guide: StageSettings = StageSettings(rounds=20)  # rounds of guidance, one after each erasure
    recover: StageSettings = StageSettings()  # rounds of recovery
    momentum: Fraction = 0.95  # weight λ of the old model in the mixture with M_d


class AscentPlan(ConfigTable):
    """EWC-SGA, FU-PGA or SFU: constrained gradient ascent, executed by the leaving client."""

    ascent: StageSettings = StageSettings(rounds=20, clip=1.0)  # rounds of ascent
    recover: StageSettings = StageSettings()  # rounds of recovery
    # Whether the ascent stops at the loss of a uniform guess (FU-PGA and SFU).
    stop_at_uniform: bool = True
    strength: Positive = 1.0  # weight of the elastic term (EWC-SGA)
    # Squared distance to the leaving client's model at which the ascent stops (FU-PGA).
    max_distance: Positive = 2.2
    energy: Fraction = 0.99  # fraction of the inputs' energy in the protected subspace (SFU)


class DampeningPlan(ConfigTable):
    """Method adaclipping-like: shrinks the parameters that matter most for the forgotten rows."""

    recover: StageSettings = StageSettings()  # rounds of recovery
    # A parameter is dampened if its Fisher information on the forgotten rows is more than this
    # factor times its Fisher information on the remaining rows.
    ratio: Positive = 10.0
    strength: Positive = 1.0  # strength of the dampening


class MimirPlan(ConfigTable):
    """Settings of Mimir's unlearning method, which needs personal = {kind = "mimir"}."""

    # Rounds of distillation at all remaining clients; epochs is the number of generator rounds,
    # batch the number of generated images.
    distil: StageSettings = StageSettings(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Initial student. random: random weights. warm: the trained model. head-reset: the trained
    # model with a new head.
    init: Literal["random", "warm", "head-reset"] = "random"
    inner: Count = 10  # steps T_k of the student per step of the generator
    divergence: Annotated[float, Field(ge=0)] = 5.0  # weight β of the divergence
    attention: Annotated[float, Field(ge=0)] = 2.0  # weight γ of the attention transfer
    temperature: Positive = 2.0
    # Whether the student's and the teacher's features are compared after the prompt is applied;
    # false: before the prompt is applied.
    after_prompt: bool = True
    # How the student's features move relative to the leaving clients' features.
    sign: Literal["align", "repel", "orthogonal"] = "align"


class FedMmPlan(ConfigTable):
    """FedMM (Chundawat et al. 2023): uses error-maximising and error-minimising noise."""

    # Rounds that train on error-maximising noise.
    impair: StageSettings = StageSettings(rounds=1, learning_rate=0.02, batch=256)
    # Rounds that train on error-minimising noise.
    repair: StageSettings = StageSettings(rounds=5, learning_rate=0.01, batch=256)
    share: Fraction = 0.2  # weight of the leaving clients' update in a round of impair
    noise_rows: Annotated[int, Field(ge=1, le=65_536)] = 256  # noise images per class
    noise_steps: Count = 40  # optimisation steps of the noise
    noise_rate: Positive = 0.1  # learning rate of the noise
    penalty: Annotated[float, Field(ge=0)] = 0.1  # weight of the penalty on the noise's norm


class FedGktPlan(ConfigTable):
    """FedGKT: gated knowledge transfer (Chundawat et al. 2023) at the remaining clients."""

    # Rounds of distillation at all remaining clients; epochs is the number of generator rounds,
    # batch the number of generated images.
    distil: StageSettings = StageSettings(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Initial student. random: random weights. warm: the trained model. head-reset: the trained
    # model with a new head.
    init: Literal["random", "warm", "head-reset"] = "random"
    # How images of the leaving clients are filtered out. features: by the similarity of features;
    # this gate needs personal = {kind = "mimir"}. classes: by the leaving clients' classes.
    gate: Literal["features", "classes"] = "features"
    # Largest cosine similarity of features at which an image passes the gate.
    max_similarity: Annotated[float, Field(ge=-1, le=1)] = 0.9
    # Largest probability of the leaving clients' classes at which an image passes the gate.
    max_probability: Fraction = 0.01
    inner: Count = 10  # steps of the student per step of the generator
    attention: Annotated[float, Field(ge=0)] = 250.0  # weight of the attention transfer
    temperature: Positive = 1.0


class ClientVariant(MethodVariant):
    """Variant of a client unlearning method: the same method with other settings."""

    method: ClientMethod


class ClientUnlearning(UnlearningSettingsBase):
    """Client unlearning: the methods to run for every request, and the settings of each method."""

    method: ClientMethod = "fedosd"  # method whose model is the result of the run
    compare: tuple[ClientMethod, ...] = ("fine-tune",)  # further methods to run and compare
    variants: tuple[ClientVariant, ...] = ()  # methods to run once more with other settings
    retrains: Count = 1  # number of Retrains
    # Remaining client whose model mimir, fedmm and fedgkt change; absent: all remaining clients.
    target_client: Name | None = None
    fine_tune: StageSettings = StageSettings()  # rounds of the baseline fine-tune
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
