"""Registry of client unlearning methods, and the class of an agreement with their settings."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from configs.client_unlearning import (
    ClientUnlearning,
    ClientVariant,
    LocalTrainingSettings,
    StageSettings,
)
from configs.horizontal import HorizontalAgreement, horizontal_agreement
from configs.unlearning import MethodSettings
from configs.variants import MethodVariant, variants_table
from parties.horizontal.engine.clusters import assign_clusters
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.local.local_task import Aim, LocalTask
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
from parties.horizontal.methods.method import AnyClientMethod, StageBuilder
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.noisy_fine_tune import NoisyFineTune
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu


class MethodClass(Protocol):
    """The class of a method that a config can choose."""

    @property
    def settings(self) -> type[MethodSettings] | None:
        """The class of the method's table of settings; None without settings."""

    def from_agreement(
        self, agreement: HorizontalAgreement, plan: Any, rounds: StageBuilder, /
    ) -> AnyClientMethod:
        """Build the method from its settings ``plan``; ``rounds`` builds the plans of stages."""


METHODS: Final[Mapping[str, MethodClass]] = MappingProxyType(
    {
        "fedosd": FedOsd,
        "fedforget": FedForget,
        "fine-tune": FineTune,
        "federaser": FedEraser,
        "fedrecovery": FedRecovery,
        "mode": MoDe,
        "ewc-sga": EwcSga,
        "fu-pga": FuPga,
        "sfu": Sfu,
        "adaclipping-like": AdaClipping,
        "mimir": Mimir,
        "fedmm": FedMm,
        "fedgkt": FedGkt,
        "knot": Knot,
        "noisy-fine-tune": NoisyFineTune,
    }
)
AGREEMENT: Final = horizontal_agreement(
    variants_table(
        ClientUnlearning,
        ClientVariant,
        {name: each.settings for name, each in METHODS.items()},
        chosen="fedosd",
    )
)


# The names of random streams are part of the seed: a renamed stream changes the results.
def build_method(agreement: HorizontalAgreement, name: str) -> AnyClientMethod:
    """Return the method that the config calls ``name``."""

    def rounds(
        stage: LocalTrainingSettings, stream: str, aim: Aim = "fit", strength: float = 0.0
    ) -> RoundPlan:
        return _stage_plan(agreement, stage, f"{name} {stream}", aim, strength)

    return METHODS[name].from_agreement(agreement, agreement.unlearning.table(name), rounds)


def unlearning_methods(agreement: HorizontalAgreement) -> list[AnyClientMethod]:
    """Return a request's methods: the chosen one, the ones to compare, and the Retrain methods."""
    plan = agreement.unlearning
    found = [build_method(agreement, plan.method)]
    found += [build_method(agreement, each) for each in plan.compare if each != plan.method]
    found += [_variant(agreement, each) for each in plan.variants]
    return found + [build_retrain(agreement, number + 1) for number in range(plan.retrains)]


def network_local_tasks(agreement: HorizontalAgreement) -> list[LocalTask]:
    """Return all local tasks that clients run in training, in unlearning and in measurements."""
    training = network_training_plan(agreement, "original").task
    lent = [replace(training, aim="personal-model")] if agreement.evaluation.evaluator else []
    methods = unlearning_methods(agreement) if agreement.unlearn else []
    return [training, *lent, *(task for each in methods for task in each.tasks())]


def _variant(agreement: HorizontalAgreement, variant: MethodVariant) -> AnyClientMethod:
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
