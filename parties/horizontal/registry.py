"""Registry of client unlearning methods: builds each method from its settings."""

from dataclasses import replace
from typing import Literal, Protocol, assert_never

from configs.client_unlearning import (
    AscentPlan,
    ClientMethod,
    ClientVariant,
    LocalTrainingSettings,
    StageSettings,
)
from configs.federated import ServerRule
from configs.horizontal import HorizontalAgreement
from models.server_optimisers import FedAdagrad, FedAdam, FedAvg, FedAvgM, ServerOptimiser
from parties.horizontal.engine.clusters import assign_clusters
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.local.local_task import Aim, DistillationPlan, GatePlan, LocalTask
from parties.horizontal.local.networks import build_whole_network
from parties.horizontal.methods.adaclipping import AdaClipping
from parties.horizontal.methods.ewc_sga import EwcSga
from parties.horizontal.methods.federaser import FedEraser
from parties.horizontal.methods.fedforget import FedForget
from parties.horizontal.methods.fedgkt import FedGkt
from parties.horizontal.methods.fedmm import FedMm
from parties.horizontal.methods.fedosd import FedOsd
from parties.horizontal.methods.fedrecovery import FedRecovery
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.knot import Knot
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu
from parties.horizontal.task import ORIGINAL
from unlearning.horizontal.error_noise import ErrorNoisePlan


class StageBuilder(Protocol):
    """Builds the round plan of one stage of a method."""

    def __call__(
        self, stage: LocalTrainingSettings, stream: str, aim: Aim = "fit", strength: float = 0.0
    ) -> RoundPlan:
        """Return the round plan of a stage; ``stream`` is the stage's random stream."""


def network_training_plan(agreement: HorizontalAgreement, stream: str) -> RoundPlan:
    """Return the round plan of the training or of a Retrain run; ``stream`` names its stream."""
    plan = agreement.training
    task = LocalTask(
        stream=stream,
        epochs=plan.epochs,
        batch=plan.batch,
        learning_rate=plan.learning_rate,
        momentum=plan.momentum,
        weight_decay=plan.weight_decay,
        proximal=plan.proximal,
    )
    rule = server_rule(plan.rule)
    return RoundPlan(task, plan.rounds, plan.share, plan.decay, rule, agreement.seed)


def server_rule(plan: ServerRule) -> ServerOptimiser:
    """Return the server's optimiser, which applies the mean update to the model."""
    slow = plan.rate or 1e-3
    match plan.kind:
        case "fedavg":
            return FedAvg(plan.rate or 1.0)
        case "fedavgm":
            return FedAvgM(plan.rate or 1.0, plan.momentum)
        case "fedadagrad":
            return FedAdagrad(slow, plan.tau)
        case "fedadam" | "fedyogi":
            yogi = plan.kind == "fedyogi"
            return FedAdam(slow, plan.tau, plan.beta1, plan.beta2, plan.form, yogi)
    assert_never(plan.kind)


# The names of random streams below are part of the seed: a renamed stream changes the results.
def build_method(agreement: HorizontalAgreement, name: ClientMethod) -> AnyClientMethod:  # noqa: C901, PLR0911  one for each
    """Return the method that the config calls ``name``."""
    plan = agreement.unlearning

    def round_plan(
        stage: LocalTrainingSettings, stream: str, aim: Aim = "fit", strength: float = 0.0
    ) -> RoundPlan:
        return _stage_plan(agreement, stage, f"{name} {stream}", aim, strength)

    match name:
        case "fine-tune":
            return FineTune(round_plan(plan.fine_tune, "recover"))
        case "fedosd":
            osd = plan.fedosd
            unlearn = round_plan(osd.unlearn, "unlearn")
            return FedOsd(unlearn, round_plan(osd.recover, "recover"), osd.project, osd.variant)
        case "fedforget":
            two = plan.fedforget
            return FedForget(
                round_plan(two.distil, "teach"), round_plan(two.teacher_b, "second"),
                round_plan(two.recover, "recover"), two.mode, two.weight_a, two.weight_b,
                two.leaving_factor, two.decay, two.max_weight, two.temperature,
            )  # fmt: skip
        case "federaser":
            eraser, shapes = plan.federaser, build_whole_network(agreement, "shape")
            calibrate = round_plan(eraser.calibrate, "calibrate")
            return FedEraser(calibrate, round_plan(eraser.recover, "recover"), shapes)
        case "fedrecovery":
            noisy = plan.fedrecovery
            return FedRecovery(round_plan(noisy.recover, "recover"), noisy.epsilon, noisy.beta)
        case "mode":
            mode = plan.mode
            return MoDe(
                round_plan(mode.degrade, "degrade"), round_plan(mode.guide, "guide"),
                round_plan(mode.recover, "recover"), mode.momentum,
            )  # fmt: skip
        case "knot":
            return Knot(network_training_plan(agreement, ORIGINAL))
        case "ewc-sga" | "fu-pga" | "sfu":
            return _ascent(agreement, name, round_plan)
        case "adaclipping-like":
            damp = plan.adaclipping_like
            recover = round_plan(damp.recover, "recover")
            fisher_task = replace(recover.task, aim="fisher")
            return AdaClipping(fisher_task, recover, damp.ratio, damp.strength)
        case "mimir" | "fedmm" | "fedgkt":
            return _data_free(agreement, name, round_plan)
    assert_never(name)


def _ascent(
    agreement: HorizontalAgreement,
    name: Literal["ewc-sga", "fu-pga", "sfu"],
    round_plan: StageBuilder,
) -> AnyClientMethod:
    """The methods of gradient ascent at the leaving client."""
    plan = agreement.unlearning
    match name:
        case "ewc-sga":
            elastic = plan.ewc_sga
            ascent = round_plan(elastic.ascent, "climb", "elastic", elastic.strength)
            return EwcSga(ascent, round_plan(elastic.recover, "recover"))
        case "fu-pga":
            pga = plan.fu_pga
            last = network_training_plan(agreement, f"{name} last")
            ascent = round_plan(pga.ascent, "climb", _ascent_aim(pga))
            return FuPga(last, ascent, round_plan(pga.recover, "recover"), pga.max_distance)
        case "sfu":
            sfu, shapes = plan.sfu, build_whole_network(agreement, "shape")
            ascent = round_plan(sfu.ascent, "climb", _ascent_aim(sfu))
            return Sfu(ascent, round_plan(sfu.recover, "recover"), shapes, sfu.energy)
    assert_never(name)


def _ascent_aim(plan: AscentPlan) -> Aim:
    return "ascent" if plan.stop_at_uniform else "elastic"


def _data_free(
    agreement: HorizontalAgreement,
    name: Literal["mimir", "fedmm", "fedgkt"],
    round_plan: StageBuilder,
) -> AnyClientMethod:
    """The methods of data-free distillation and of noise."""
    plan, shapes = agreement.unlearning, build_whole_network(agreement, "shape")
    match name:
        case "mimir":
            mimir = plan.mimir
            losses = DistillationPlan(
                student_steps=mimir.inner, temperature=mimir.temperature,
                divergence=mimir.divergence, attention=mimir.attention,
                after_prompt=mimir.after_prompt, sign=mimir.sign,
            )  # fmt: skip
            distil, recover = (
                round_plan(mimir.distil, "distil"),
                round_plan(mimir.recover, "recover"),
            )
            return Mimir(distil, recover, losses, shapes, mimir.init, plan.target_client)
        case "fedmm":
            fedmm = plan.fedmm
            noise = ErrorNoisePlan(
                rows=fedmm.noise_rows, steps=fedmm.noise_steps, learning_rate=fedmm.noise_rate,
                penalty=fedmm.penalty,
            )  # fmt: skip
            impair, repair = round_plan(fedmm.impair, "impair"), round_plan(fedmm.repair, "repair")
            return FedMm(impair, repair, noise, fedmm.share, plan.target_client)
        case "fedgkt":
            gkt = plan.fedgkt
            gate = GatePlan(
                student_steps=gkt.inner, temperature=gkt.temperature, attention=gkt.attention,
                threshold=gkt.max_similarity if gkt.gate == "features" else gkt.max_probability,
            )  # fmt: skip
            distil, recover = round_plan(gkt.distil, "distil"), round_plan(gkt.recover, "recover")
            return FedGkt(distil, recover, gate, shapes, gkt.gate, gkt.init, plan.target_client)
    assert_never(name)


def unlearning_methods(agreement: HorizontalAgreement) -> list[AnyClientMethod]:
    """Return a request's methods: the chosen one, the ones to compare, and the Retrain methods."""
    plan = agreement.unlearning
    found = [build_method(agreement, plan.method)]
    found += [build_method(agreement, each) for each in plan.compare if each != plan.method]
    found += [_variant(agreement, each) for each in plan.variants]
    return found + [build_retrain(agreement, number + 1) for number in range(plan.retrains)]


def _variant(agreement: HorizontalAgreement, variant: ClientVariant) -> AnyClientMethod:
    """A method with other settings and the same random streams."""
    own = agreement.model_copy(update={"unlearning": agreement.unlearning.at(variant)})
    found: AnyClientMethod = replace(build_method(own, variant.method), name=variant.name)  # type: ignore[type-var]
    return found


def build_retrain(agreement: HorizontalAgreement, number: int) -> Retrain:
    """Return the Retrain method ``number`` (1, 2, …); each has its own random initial weights."""
    name = "retrain" if number == 1 else f"retrain-{number}"
    return Retrain(network_training_plan(agreement, name), name, training_clusters(agreement))


def training_clusters(agreement: HorizontalAgreement) -> tuple[tuple[str, ...], ...]:
    """Return the clients of each cluster; empty if all clients train together."""
    count = agreement.training.clusters
    return assign_clusters(agreement.spokes, count, agreement.seed) if count > 1 else ()


def _stage_plan(
    agreement: HorizontalAgreement,
    stage: LocalTrainingSettings,
    stream: str,
    aim: Aim,
    strength: float,
) -> RoundPlan:
    """The rounds of a stage; settings of local training alone have one round."""
    rounds = stage.rounds if isinstance(stage, StageSettings) else 1
    usual = agreement.training
    task = LocalTask(
        aim=aim,
        stream=stream,
        epochs=stage.epochs,
        batch=stage.batch or usual.batch,
        learning_rate=stage.learning_rate or usual.learning_rate,
        momentum=stage.momentum,
        weight_decay=usual.weight_decay,
        proximal=strength,
        clip=stage.clip,
    )
    return RoundPlan(task, rounds, seed=agreement.seed, decay=usual.decay)
