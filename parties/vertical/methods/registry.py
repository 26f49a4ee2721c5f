"""The registry of unlearning methods, and the schema of the vertical mode with their settings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from configs.agreement import VerticalAgreement, vertical_agreement
from configs.config_file import ConfigSchema
from configs.unlearning import OtherLabels, unlearning_table
from parties.common.errors import PolicyError
from parties.data.party_settings import VerticalPartySettings
from parties.report.method_names import Label, retrain_names
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.fedora import FedOraMethod
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.method import PAIRED, VerticalMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.newton_cg import NewtonCgMethod
from parties.vertical.methods.orders import Orders, fallback_orders
from parties.vertical.methods.relabel import RelabelMethod
from parties.vertical.methods.retrain import RetrainMethod
from parties.vertical.methods.retrain_local import RetrainLocalMethod
from parties.vertical.methods.scrub import ScrubMethod
from parties.vertical.methods.sharded import ShardedMethod
from parties.vertical.methods.short_retrain import ShortRetrainMethod
from parties.vertical.methods.shrink_perturb import ShrinkPerturbMethod
from parties.vertical.methods.top_only import TopOnlyMethod


class AnyMethod(VerticalMethod[NetworkRun, Any], Protocol):
    """A vertical method, with what the report shows of it."""

    @property
    def label(self) -> Label:
        """What the report shows of the method."""

    @property
    def corrects(self) -> bool:
        """Whether the method can replace the labels of D_u, which then stays in D_r."""

    @property
    def only_classes(self) -> str:
        """Why the method holds only for labels of one of several classes; empty: for any loss."""


EXACT: Final[tuple[AnyMethod, ...]] = (
    NewtonCgMethod(),
    ShardedMethod(),
    RetrainMethod(PAIRED, ORIGINAL),
)
BASELINES: Final[tuple[AnyMethod, ...]] = (
    FineTuneMethod(),
    GradientAscentMethod(),
    RelabelMethod(),
    TopOnlyMethod(),
    ShrinkPerturbMethod(),
    IcoLikeMethod(),
    CvfuMethod(),
    ScrubMethod(),
    ShortRetrainMethod(),
    RetrainLocalMethod(),
)
METHODS: Final[Mapping[str, AnyMethod]] = MappingProxyType(
    {each.name: each for each in (FedOraMethod(), *EXACT, *BASELINES)}
)
ALWAYS: Final = ("fine-tune", "relabel")  # trivial baselines, in every comparison
# cvfu needs top.kind = 'sum', retrain-local another top model.
NOT_BY_DEFAULT: Final = ("cvfu", "scrub", "retrain-local")
COMPARED: Final = tuple(each for each in BASELINES if each.name not in NOT_BY_DEFAULT)
AGREEMENT: Final = vertical_agreement(
    unlearning_table(
        {name: each.settings for name, each in METHODS.items()},
        baselines=tuple(each.name for each in BASELINES),
        compared=tuple(each.name for each in COMPARED),
        always=ALWAYS,
        correcting=tuple(name for name, each in METHODS.items() if each.corrects),
        local=RetrainLocalMethod.name,
        other_labels=OtherLabels(
            {name: each.only_classes for name, each in METHODS.items() if each.only_classes},
            {True: RetrainLocalMethod.name, False: PAIRED},
            tuple(each.name for each in COMPARED if not each.only_classes),
        ),
    )
)
SCHEMA: Final = ConfigSchema("vertical", AGREEMENT, VerticalPartySettings, VerticalPartySettings)


def vertical_method(name: str) -> AnyMethod:
    """The method with the name ``name`` in the config."""
    return METHODS[name]


def early_checkpoint_share(agreement: VerticalAgreement) -> float | None:
    """Fraction of the training after which parties save the early checkpoint; None: no checkpoint.

    Raises:
        PolicyError: two methods of the agreement need checkpoints after different fractions.
    """
    plan = agreement.unlearning
    needs = [METHODS[name].needs(agreement) for name in (plan.method, *plan.compare)]
    shares = {each.early_checkpoint for each in needs} - {None}
    if len(shares) > 1:
        raise PolicyError(
            "two methods need early checkpoints after different fractions of the training: "
            f"{', '.join(map(str, sorted(filter(None, shares))))}",
            "set the same value of 'rewind' in the tables of all methods with start = 'rewind'",
        )
    return shares.pop() if shares else None


def agreed_orders(agreement: VerticalAgreement) -> list[Orders]:
    """The orders of every method that an agreement names."""
    plan = agreement.unlearning
    of_methods = [METHODS[name].orders(agreement) for name in (plan.method, *plan.compare)]
    return [*of_methods, *fallback_orders(agreement)]


def independent_retrains(count: int) -> list[AnyMethod]:
    """Make ``count`` methods; each trains one Retrain model with its own random streams."""
    return [RetrainMethod(name, name) for name in retrain_names(count)]
