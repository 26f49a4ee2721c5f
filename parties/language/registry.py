"""From the settings of a language model's run to its rounds and ways to unlearn."""

from dataclasses import replace

from configs.language import Language
from configs.language_unlearning import (
    ByRulePlan,
    Forgetting,
    GradAscentPlan,
    GradDiffPlan,
    NpoPlan,
    PrimalDualPlan,
    RmuPlan,
    SimNpoPlan,
    TextMethod,
    TextStage,
)
from models.server_optimisers import FedAvg
from parties.horizontal.engine.rounds import Course
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.text_task import Objective, TextLesson
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.registry import server_rule
from parties.language.methods.by_objective import ByObjective
from parties.language.methods.primal_dual import PrimalDual


def training(agreement: Language, stream: str) -> Course:
    """The rounds of the fine-tuning, or of a Retrain."""
    plan = agreement.training
    lesson = Lesson(
        aim="text",
        stream=stream,
        epochs=plan.epochs,
        batch=plan.batch,
        learning_rate=plan.learning_rate,
        weight_decay=plan.weight_decay,
        proximal=plan.proximal,
        clip=plan.clip,
        text=TextLesson(optimiser=plan.optimiser),
    )
    rule = server_rule(plan.rule)
    return Course(lesson, plan.rounds, plan.share, plan.decay, rule, agreement.seed)


def ways(agreement: Language, rounds: int) -> list[Method]:
    """All that a request is answered with: the chosen method first, the Retrains last."""
    plan = agreement.unlearning
    found = [method(agreement, plan.method)]
    found += [method(agreement, each) for each in plan.compare if each != plan.method]
    names = ["retrain", *(f"retrain-{number + 2}" for number in range(plan.retrains - 1))]
    for each in plan.also:
        own = agreement.model_copy(update={"unlearning": plan.at(each)})
        found.append(replace(method(own, each.method), name=each.name))  # type: ignore[type-var]
    courses = [replace(training(agreement, name), rounds=rounds) for name in names]
    return [*found, *(Retrain(each, n) for n, each in zip(names, courses, strict=True))]


def lessons(agreement: Language) -> list[Lesson]:
    """All that a client may be given, in training and by the ways to unlearn."""
    courses = [training(agreement, "original")]
    for each in ways(agreement, 1) if agreement.unlearn else ():
        if isinstance(each, FineTune):
            courses.append(each.course)
        elif isinstance(each, ByObjective | PrimalDual):
            courses += [each.unlearn, each.recover]
    return [each.lesson for each in courses]


def method(agreement: Language, name: TextMethod) -> Method:
    """The method of a config's name."""
    plan = agreement.unlearning
    match name:
        case "fine-tune":
            stream = "fine-tune recover"
            return FineTune(_course(agreement, plan.fine_tune, stream, TextLesson()))
        case "primal-dual":
            return _priced(agreement, plan.primal_dual)
        case _:
            settings: ByRulePlan = getattr(plan, name.replace("-", "_"))
            return _by_objective(agreement, name, settings)


def _by_objective(agreement: Language, name: Objective, plan: ByRulePlan) -> ByObjective:
    found = _text(name, plan)
    return ByObjective(
        name,
        _course(agreement, plan.unlearn, f"{name} unlearn", found),
        _course(agreement, plan.recover, f"{name} recover", TextLesson()),
        plan.who,
        server_rule(plan.rule) if plan.rule else FedAvg(),
    )


def _priced(agreement: Language, plan: PrimalDualPlan) -> PrimalDual:
    return PrimalDual(
        _course(agreement, plan.unlearn, "primal-dual unlearn", _text("primal-dual", plan)),
        _course(agreement, plan.recover, "primal-dual recover", TextLesson()),
        plan.step_size,
        plan.price,
        plan.most,
        plan.threshold,
        plan.who,
    )


def _text(name: Objective, plan: Forgetting) -> TextLesson:
    found = TextLesson(objective=name)
    match plan:
        case PrimalDualPlan(alpha=alpha, retain=retain):
            return replace(found, alpha=alpha, retain=retain)
        case RmuPlan(layer=layer, steering=steering, gamma=gamma, alpha=alpha):
            return replace(found, layer=layer or 0, steering=steering, gamma=gamma, alpha=alpha)
        case GradDiffPlan(gamma=gamma, alpha=alpha, retain=retain):
            beta = plan.beta if isinstance(plan, NpoPlan | SimNpoPlan) else found.beta
            delta = plan.delta if isinstance(plan, SimNpoPlan) else found.delta
            two = replace(found, gamma=gamma, alpha=alpha, retain=retain)
            return replace(two, beta=beta, delta=delta)
        case GradAscentPlan(stops=stops):
            return replace(found, stops=stops)
        case _:
            return found


def _course(agreement: Language, stage: TextStage, stream: str, text: TextLesson) -> Course:
    usual = agreement.training
    lesson = Lesson(
        aim="text",
        stream=stream,
        epochs=stage.epochs,
        batch=stage.batch or usual.batch,
        learning_rate=stage.learning_rate or usual.learning_rate,
        weight_decay=usual.weight_decay,
        proximal=usual.proximal if stage.proximal is None else stage.proximal,
        clip=usual.clip,
        text=replace(text, optimiser=usual.optimiser),
    )
    share = usual.share if stage.share is None else stage.share
    return Course(lesson, stage.rounds, share, usual.decay, seed=agreement.seed)
