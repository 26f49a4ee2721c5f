"""From the settings to the ways to unlearn: the one place that knows them all."""

from dataclasses import replace
from typing import Literal, Protocol, assert_never

from configs.client_unlearning import AscentPlan, ClientMethod, ClientVariant, Lessons, Stage
from configs.federated import Rule
from configs.horizontal import Horizontal
from models.server_optimisers import FedAdagrad, FedAdam, FedAvg, FedAvgM, ServerOptimiser
from parties.horizontal.engine.clusters import dealt
from parties.horizontal.engine.rounds import Course
from parties.horizontal.local.distillation import Distillation, Gate
from parties.horizontal.local.local_task import Aim, Lesson
from parties.horizontal.local.networks import build
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
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu
from unlearning.horizontal.noise import Noise

ORIGINAL = "original"  # the training, and its randomness


class Staged(Protocol):
    """Makes rounds of a stage's settings."""

    def __call__(
        self, stage: Lessons, stream: str, aim: Aim = "learn", strength: float = 0.0
    ) -> Course:
        """The rounds, with the name of their randomness."""


def training(agreement: Horizontal, stream: str) -> Course:
    """The rounds of the training, or of a Retrain."""
    plan = agreement.training
    lesson = Lesson(
        stream=stream,
        epochs=plan.epochs,
        batch=plan.batch,
        learning_rate=plan.learning_rate,
        momentum=plan.momentum,
        weight_decay=plan.weight_decay,
        proximal=plan.proximal,
    )
    rule = server_rule(plan.rule)
    return Course(lesson, plan.rounds, plan.share, plan.decay, rule, agreement.seed)


def server_rule(plan: Rule) -> ServerOptimiser:
    """What the server does with the mean change."""
    slow = plan.rate or 1e-3
    match plan.kind:
        case "fedavg":
            return FedAvg(plan.rate or 1.0)
        case "fedavgm":
            return FedAvgM(plan.rate or 1.0, plan.momentum)
        case "fedadagrad":
            return FedAdagrad(slow, plan.floor)
        case "fedadam" | "fedyogi":
            yogi = plan.kind == "fedyogi"
            return FedAdam(slow, plan.floor, plan.first, plan.second, plan.form, yogi)
    assert_never(plan.kind)


def method(agreement: Horizontal, name: ClientMethod) -> Method:  # noqa: C901, PLR0911  one for each
    """The method of a config's name."""
    plan = agreement.unlearning

    def course(stage: Lessons, stream: str, aim: Aim = "learn", strength: float = 0.0) -> Course:
        return _course(agreement, stage, f"{name} {stream}", aim, strength)

    match name:
        case "fine-tune":
            return FineTune(course(plan.fine_tune, "recover"))
        case "fedosd":
            osd = plan.fedosd
            unlearn, back = course(osd.unlearn, "unlearn"), course(osd.recover, "recover")
            return FedOsd(unlearn, back, osd.project, osd.variant)
        case "fedforget":
            two = plan.fedforget
            return FedForget(
                course(two.teach, "teach"), course(two.second, "second"),
                course(two.recover, "recover"), two.mode, two.keep, two.other, two.extra, two.fade,
                two.most, two.temperature,
            )  # fmt: skip
        case "federaser":
            eraser, shapes = plan.federaser, build(agreement, "shape")
            calibrate = course(eraser.calibrate, "calibrate")
            return FedEraser(calibrate, course(eraser.recover, "recover"), shapes)
        case "fedrecovery":
            taken = plan.fedrecovery
            return FedRecovery(course(taken.recover, "recover"), taken.epsilon, taken.beta)
        case "mode":
            drift = plan.mode
            return MoDe(
                course(drift.degrade, "degrade"), course(drift.guide, "guide"),
                course(drift.recover, "recover"), drift.momentum,
            )  # fmt: skip
        case "knot":
            return Knot(training(agreement, ORIGINAL))
        case "ewc-sga" | "fu-pga" | "sfu":
            return _ascent(agreement, name, course)
        case "adaclipping-like":
            damp = plan.adaclipping_like
            back = course(damp.recover, "recover")
            look = replace(back.lesson, aim="fisher")
            return AdaClipping(look, back, damp.ratio, damp.strength)
        case "mimir" | "fedmm" | "fedgkt":
            return _data_free(agreement, name, course)
    assert_never(name)


def _ascent(
    agreement: Horizontal, name: Literal["ewc-sga", "fu-pga", "sfu"], course: Staged
) -> Method:
    """Those that climb the leaving client's loss, each held back in its way."""
    plan = agreement.unlearning
    match name:
        case "ewc-sga":
            held = plan.ewc_sga
            climb = course(held.climb, "climb", "ascend", held.strength)
            return EwcSga(climb, course(held.recover, "recover"))
        case "fu-pga":
            pga = plan.fu_pga
            last = training(agreement, f"{name} last")
            climb = course(pga.climb, "climb", _upwards(pga))
            return FuPga(last, climb, course(pga.recover, "recover"), pga.far)
        case "sfu":
            sub, shapes = plan.sfu, build(agreement, "shape")
            climb = course(sub.climb, "climb", _upwards(sub))
            return Sfu(climb, course(sub.recover, "recover"), shapes, sub.energy)
    assert_never(name)


def _upwards(plan: AscentPlan) -> Aim:
    return "climb" if plan.stops else "ascend"


def _data_free(
    agreement: Horizontal, name: Literal["mimir", "fedmm", "fedgkt"], course: Staged
) -> Method:
    """Those that read no row."""
    plan, shapes = agreement.unlearning, build(agreement, "shape")
    match name:
        case "mimir":
            prompts = plan.mimir
            how = Distillation(
                inner=prompts.inner, temperature=prompts.temperature,
                divergence=prompts.divergence, attention=prompts.attention,
                behind=prompts.behind, sign=prompts.sign,
            )  # fmt: skip
            pupil, back = course(prompts.distil, "distil"), course(prompts.recover, "recover")
            return Mimir(pupil, back, how, shapes, prompts.begin, plan.peer)
        case "fedmm":
            both = plan.fedmm
            noise = Noise(
                rows=both.noise_rows, steps=both.noise_steps, learning_rate=both.noise_rate,
                penalty=both.penalty,
            )  # fmt: skip
            impair, repair = course(both.impair, "impair"), course(both.repair, "repair")
            return FedMm(impair, repair, noise, both.share, plan.peer)
        case "fedgkt":
            shut = plan.fedgkt
            most = shut.likeness if shut.by == "features" else shut.chance
            gate = Gate(
                inner=shut.inner, temperature=shut.temperature, attention=shut.attention, most=most
            )
            pupil, back = course(shut.distil, "distil"), course(shut.recover, "recover")
            return FedGkt(pupil, back, gate, shapes, shut.by, shut.begin, plan.peer)
    assert_never(name)


def ways(agreement: Horizontal) -> list[Method]:
    """All that a request is answered with: the chosen method first, the Retrains last."""
    plan = agreement.unlearning
    found = [method(agreement, plan.method)]
    found += [method(agreement, each) for each in plan.compare if each != plan.method]
    found += [_variant(agreement, each) for each in plan.also]
    return found + [retrain(agreement, number + 1) for number in range(plan.retrains)]


def _variant(agreement: Horizontal, variant: ClientVariant) -> Method:
    """A method with other settings, and the same randomness."""
    own = agreement.model_copy(update={"unlearning": agreement.unlearning.at(variant)})
    found: Method = replace(method(own, variant.method), name=variant.name)  # type: ignore[type-var]
    return found


def retrain(agreement: Horizontal, number: int) -> Retrain:
    """A Retrain with a random start of its own."""
    name = "retrain" if number == 1 else f"retrain-{number}"
    return Retrain(training(agreement, name), name, clusters(agreement))


def clusters(agreement: Horizontal) -> tuple[tuple[str, ...], ...]:
    """Who learns with whom; none where all learn together."""
    count = agreement.training.clusters
    return dealt(agreement.spokes, count, agreement.seed) if count > 1 else ()


def _course(
    agreement: Horizontal, stage: Lessons, stream: str, aim: Aim, strength: float
) -> Course:
    """The rounds of a stage; of lessons alone one."""
    rounds = stage.rounds if isinstance(stage, Stage) else 1
    usual = agreement.training
    lesson = Lesson(
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
    return Course(lesson, rounds, seed=agreement.seed, decay=usual.decay)
