"""Registry of client unlearning methods, and the schema of the mode with their settings."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from configs.client_unlearning import (
    ClientUnlearning,
    ClientVariant,
)
from configs.config_file import ConfigSchema
from configs.federated import SIMULATED
from configs.horizontal import HorizontalAgreement, horizontal_agreement
from configs.party_settings import PartySettingsBase
from configs.variants import MethodVariant, variants_table
from parties.data.party_settings import RowPartySettings
from parties.horizontal.engine.clusters import assign_clusters
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.local.local_task import LocalTask
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
from parties.horizontal.methods.method import AnyClientMethod, MethodClass, Stages
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.noisy_fine_tune import NoisyFineTune
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu
from parties.report.method_names import retrain_names

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
UNLEARNING: Final = variants_table(
    ClientUnlearning,
    ClientVariant,
    {name: each.settings for name, each in METHODS.items()},
    chosen="fedosd",
)
UNLEARNING.reads = MappingProxyType({name: each.reads for name, each in METHODS.items()})
AGREEMENT: Final = horizontal_agreement(UNLEARNING)
SCHEMA: Final = ConfigSchema(
    "horizontal", AGREEMENT, PartySettingsBase, RowPartySettings, SIMULATED
)


def build_method(agreement: HorizontalAgreement, name: str) -> AnyClientMethod:
    """Return the method that the config calls ``name``."""
    plan = agreement.unlearning.table(name)
    return METHODS[name].from_settings(plan, Stages(agreement, name))


def unlearning_methods(agreement: HorizontalAgreement) -> list[AnyClientMethod]:
    """Return a request's methods: the chosen one, the ones to compare, and the Retrain methods."""
    plan = agreement.unlearning
    found = [build_method(agreement, plan.method)]
    found += [build_method(agreement, each) for each in plan.compare if each != plan.method]
    found += [_variant(agreement, each) for each in plan.variants]
    return found + [build_retrain(agreement, name) for name in retrain_names(plan.retrains)]


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


def build_retrain(agreement: HorizontalAgreement, name: str) -> Retrain:
    """Return the Retrain method ``name``; each name has its own random initial weights."""
    return Retrain(network_training_plan(agreement, name), name, training_clusters(agreement))


def training_clusters(agreement: HorizontalAgreement) -> tuple[tuple[str, ...], ...]:
    """Return the clients of each cluster; empty if all clients train together."""
    count = agreement.training.clusters
    return assign_clusters(agreement.spokes, count, agreement.seed) if count > 1 else ()
