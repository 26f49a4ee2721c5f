"""Registry of the language mode: round plans and unlearning methods from an agreement."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from configs.language import LanguageAgreement, language_agreement
from configs.language_unlearning import TextStage, TextUnlearning, TextVariant
from configs.unlearning import MethodSettings
from configs.variants import variants_table
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.training_plan import server_rule
from parties.horizontal.local.local_task import LocalTask, TextTask
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.retrain import Retrain
from parties.language.methods.fine_tune import TextFineTune
from parties.language.methods.grad_ascent import GradAscent
from parties.language.methods.grad_diff import GradDiff
from parties.language.methods.npo import Npo
from parties.language.methods.primal_dual import PrimalDual
from parties.language.methods.rmu import Rmu
from parties.language.methods.simnpo import SimNpo
from parties.language.methods.text_method import FITTING, TextStageBuilder


class TextMethodClass(Protocol):
    """The class of a method that a config can choose."""

    @property
    def settings(self) -> type[MethodSettings] | None:
        """The class of the method's table of settings; None without settings."""

    def from_agreement(
        self, agreement: LanguageAgreement, plan: Any, rounds: TextStageBuilder, /
    ) -> AnyClientMethod:
        """Build the method from its settings ``plan``; ``rounds`` builds the plans of stages."""


METHODS: Final[Mapping[str, TextMethodClass]] = MappingProxyType(
    {
        "fine-tune": TextFineTune,
        "grad-ascent": GradAscent,
        "grad-diff": GradDiff,
        "npo": Npo,
        "simnpo": SimNpo,
        "rmu": Rmu,
        "primal-dual": PrimalDual,
    }
)
AGREEMENT: Final = language_agreement(
    variants_table(
        TextUnlearning,
        TextVariant,
        {name: each.settings for name, each in METHODS.items()},
        chosen="npo",
    )
)


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
    methods = text_unlearning_methods(agreement, 1) if agreement.unlearn else []
    training = text_training_plan(agreement, "original").task
    return [training, *(task for each in methods for task in each.tasks())]


def text_method(agreement: LanguageAgreement, name: str) -> AnyClientMethod:
    """Return the unlearning method that configs call ``name``."""

    def rounds(stage: TextStage, stream: str, text: TextTask = FITTING) -> RoundPlan:
        return _stage_plan(agreement, stage, f"{name} {stream}", text)

    return METHODS[name].from_agreement(agreement, agreement.unlearning.table(name), rounds)


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
