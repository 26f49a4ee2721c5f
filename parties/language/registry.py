"""Registry of the language mode: round plans and unlearning methods from an agreement."""

from dataclasses import replace

from configs.language import LanguageAgreement
from configs.language_unlearning import (
    ForgettingPlan,
    GradAscentPlan,
    GradDiffPlan,
    NpoPlan,
    PrimalDualPlan,
    RmuPlan,
    ServerRulePlan,
    SimNpoPlan,
    TextMethod,
    TextStage,
)
from models.server_optimisers import FedAvg
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.local.local_task import LocalTask, Objective, TextTask
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.registry import server_rule
from parties.language.methods.loss_based import LossBasedUnlearning
from parties.language.methods.primal_dual import PrimalDual


def text_training_plan(agreement: LanguageAgreement, stream: str) -> RoundPlan:
    """Return the plan of the fine-tuning or a Retrain run; ``stream`` selects the batch order."""
    plan = agreement.training
    task = LocalTask(
        aim="text",
        stream=stream,
        epochs=plan.epochs,
        batch=plan.batch,
        learning_rate=plan.learning_rate,
        weight_decay=plan.weight_decay,
        proximal=plan.proximal,
        clip=plan.clip,
        text=TextTask(optimiser=plan.optimiser),
    )
    rule = server_rule(plan.rule)
    return RoundPlan(task, plan.rounds, plan.share, plan.decay, rule, agreement.seed)


def text_unlearning_methods(agreement: LanguageAgreement, rounds: int) -> list[AnyClientMethod]:
    """Return all methods that a request runs: the chosen method first, the Retrain methods last.

    ``rounds`` is the number of training rounds so far; each Retrain method runs equally many
    rounds.
    """
    plan = agreement.unlearning
    methods = [text_method(agreement, plan.method)]
    methods += [text_method(agreement, each) for each in plan.compare if each != plan.method]
    names = ["retrain", *(f"retrain-{number + 2}" for number in range(plan.retrains - 1))]
    for each in plan.variants:
        own = agreement.model_copy(update={"unlearning": plan.at(each)})
        methods.append(replace(text_method(own, each.method), name=each.name))  # type: ignore[type-var]
    plans = [replace(text_training_plan(agreement, name), rounds=rounds) for name in names]
    return [*methods, *(Retrain(each, name) for name, each in zip(names, plans, strict=True))]


def text_local_tasks(agreement: LanguageAgreement) -> list[LocalTask]:
    """Return all local tasks that clients run in training and in unlearning."""
    plans = [text_training_plan(agreement, "original")]
    for each in text_unlearning_methods(agreement, 1) if agreement.unlearn else ():
        if isinstance(each, FineTune):
            plans.append(each.round_plan)
        elif isinstance(each, LossBasedUnlearning | PrimalDual):
            plans += [each.unlearn, each.recover]
    return [each.task for each in plans]


def text_method(agreement: LanguageAgreement, name: TextMethod) -> AnyClientMethod:
    """Return the unlearning method that configs call ``name``."""
    plan = agreement.unlearning
    match name:
        case "fine-tune":
            stream = "fine-tune recover"
            return FineTune(_stage_plan(agreement, plan.fine_tune, stream, TextTask()))
        case "primal-dual":
            return _primal_dual(agreement, plan.primal_dual)
        case _:
            settings: ServerRulePlan = getattr(plan, name.replace("-", "_"))
            return _loss_based(agreement, name, settings)


def _loss_based(
    agreement: LanguageAgreement, name: Objective, plan: ServerRulePlan
) -> LossBasedUnlearning:
    task = _text_task(name, plan)
    return LossBasedUnlearning(
        name,
        _stage_plan(agreement, plan.unlearn, f"{name} unlearn", task),
        _stage_plan(agreement, plan.recover, f"{name} recover", TextTask()),
        plan.participants,
        server_rule(plan.rule) if plan.rule else FedAvg(),
    )


def _primal_dual(agreement: LanguageAgreement, plan: PrimalDualPlan) -> PrimalDual:
    task = _text_task("primal-dual", plan)
    return PrimalDual(
        _stage_plan(agreement, plan.unlearn, "primal-dual unlearn", task),
        _stage_plan(agreement, plan.recover, "primal-dual recover", TextTask()),
        plan.step_size,
        plan.initial_multiplier,
        plan.max_multiplier,
        plan.threshold,
        plan.participants,
    )


def _text_task(name: Objective, plan: ForgettingPlan) -> TextTask:
    task = TextTask(objective=name)
    match plan:
        case PrimalDualPlan(alpha=alpha, retain=retain):
            return replace(task, alpha=alpha, retain=retain)
        case RmuPlan(layer=layer, steering=steering, gamma=gamma, alpha=alpha):
            return replace(task, layer=layer or 0, steering=steering, gamma=gamma, alpha=alpha)
        case GradDiffPlan(gamma=gamma, alpha=alpha, retain=retain):
            beta = plan.beta if isinstance(plan, NpoPlan | SimNpoPlan) else task.beta
            delta = plan.delta if isinstance(plan, SimNpoPlan) else task.delta
            two = replace(task, gamma=gamma, alpha=alpha, retain=retain)
            return replace(two, beta=beta, delta=delta)
        case GradAscentPlan(stop_at_uniform=stop_at_uniform):
            return replace(task, stop_at_uniform=stop_at_uniform)
        case _:
            return task


def _stage_plan(
    agreement: LanguageAgreement, stage: TextStage, stream: str, text: TextTask
) -> RoundPlan:
    """The rounds of one stage; settings that the stage leaves out are those of the training."""
    usual = agreement.training
    task = LocalTask(
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
    return RoundPlan(task, stage.rounds, share, usual.decay, seed=agreement.seed)
