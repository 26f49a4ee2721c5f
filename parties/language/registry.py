"""Registry of the language mode: schema, and round plans and methods from an agreement."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from configs.config_file import ConfigSchema
from configs.federated import SIMULATED
from configs.language import LanguageAgreement, language_agreement
from configs.language_party_settings import (
    LanguageClientSettings,
    LanguageServerSettings,
    ModelPartySettings,
)
from configs.language_unlearning import TextUnlearning, TextVariant
from configs.variants import variants_table
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.training_plan import training_plan
from parties.horizontal.local.local_task import LocalTask, TextTask
from parties.horizontal.methods.method import AnyClientMethod, MethodClass
from parties.horizontal.methods.retrain import Retrain
from parties.language.methods.fine_tune import TextFineTune
from parties.language.methods.grad_ascent import GradAscent
from parties.language.methods.grad_diff import GradDiff
from parties.language.methods.npo import Npo
from parties.language.methods.primal_dual import PrimalDual
from parties.language.methods.rmu import Rmu
from parties.language.methods.simnpo import SimNpo
from parties.language.methods.text_method import TextStages
from parties.report.method_names import retrain_names

METHODS: Final[Mapping[str, MethodClass]] = MappingProxyType(
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
SCHEMA: Final[ConfigSchema[LanguageAgreement, ModelPartySettings]] = ConfigSchema(
    "llm", AGREEMENT, LanguageServerSettings, LanguageClientSettings, SIMULATED
)


def text_training_plan(agreement: LanguageAgreement, stream: str) -> RoundPlan:
    """Return the plan of the fine-tuning or a Retrain run; ``stream`` selects the batch order."""
    plan = agreement.training
    text = TextTask(optimiser=plan.optimiser)
    return training_plan(agreement, stream, aim="text", clip=plan.clip, text=text)


def text_unlearning_methods(agreement: LanguageAgreement, rounds: int) -> list[AnyClientMethod]:
    """Return all methods that a request runs: the chosen method first, the Retrain methods last.

    ``rounds`` is the number of training rounds so far; each Retrain method runs equally many
    rounds.
    """
    plan = agreement.unlearning
    methods = [text_method(agreement, plan.method)]
    methods += [text_method(agreement, each) for each in plan.compare if each != plan.method]
    names = retrain_names(plan.retrains)
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
    plan = agreement.unlearning.table(name)
    return METHODS[name].from_settings(plan, TextStages(agreement, name))
