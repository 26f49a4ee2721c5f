"""Agreement of a vertical run: every setting that all its parties must share."""

from datetime import date
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, create_model, model_validator

from configs.evaluation import (
    BackdoorSettings,
    EvaluationSettings,
    check_backdoors,
    refuse_full_audits,
)
from configs.exact_methods import NewtonSettings, ShardingSettings
from configs.local_start import ContinuedSettings, FastStartSettings
from configs.privacy import PrivacySettings
from configs.requests import RequestSettings
from configs.table import ConfigTable, Count, Fraction, Name, Pin, Positive
from configs.targets import TargetSettings, refuse_class_settings
from configs.unlearning import UnlearningSettings

Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000)]
SecondsOrNone: TypeAlias = Annotated[float, Field(ge=0, le=1_000_000)]  # 0 is legal, too
Widths: TypeAlias = tuple[Annotated[int, Field(ge=1, le=65_536)], ...]


class MlpBottom(ConfigTable):
    """Fully connected layers with ReLU between them; without hidden layers the model is linear."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (64,)  # widths of the hidden layers


class CnnBottom(ConfigTable):
    """3x3 convolutions with GroupNorm, each followed by 2x2 pooling, then one linear layer."""

    kind: Literal["cnn"]
    channels: Widths = (16, 32)  # output channels of the convolutions


class BackboneBottom(ConfigTable):
    """ResNet or DenseNet with GroupNorm and with a first layer for small images."""

    kind: Literal["resnet18", "resnet50", "densenet121"]


class ModuleBottom(ConfigTable):
    """The party's own ``nn.Module``; the party settings contain the import path."""

    kind: Literal["module"]
    source: Pin  # hash of the module's source file


Bottom: TypeAlias = Annotated[
    MlpBottom | CnnBottom | BackboneBottom | ModuleBottom, Field(discriminator="kind")
]


class PartyEntry(ConfigTable):
    """One party: its role and its part of the split model."""

    added_later: ClassVar[frozenset[str]] = frozenset({"since"})

    role: Literal["active", "passive"]
    # Width of the party's embeddings. Required for a passive party; an active party without a width
    # contributes only labels.
    width: Count | None = None
    columns: Count | None = None  # columns that the party's table must have; absent: any number
    bottom: Bottom = MlpBottom()  # network that turns the party's columns into embeddings
    pins: tuple[Pin, ...] = ()
    # Day on which the party joined a federation that already had requests to forget, in UTC: the
    # party takes no part in requests that were received before; absent: it takes part in all.
    since: date | None = None
    # Number of rows that the other parties see: the party's rows plus padding rows; absent: the
    # party's true number of rows.
    declared_rows: Count | None = None

    @model_validator(mode="after")
    def _passive_party_has_features(self) -> Self:
        if self.role == "passive" and self.width is None:
            raise ValueError(
                "a passive party has no key 'width': set 'width' to the number of elements of the "
                "party's embeddings"
            )
        return self


QueryCount: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)]  # their tags fit in one message


class PsiSettings(ConfigTable):
    """Settings of the private set intersection."""

    # semi_honest: secure against parties that follow the protocol. hardened: also secure against a
    # party that deviates from the protocol (psi/README.md).
    security: Literal["semi_honest", "hardened"] = "semi_honest"
    minimum: Count = 100  # smallest number of common rows; a smaller intersection stops the run
    # In hardened mode: largest number of rows that the active party may query in a session.
    queries: QueryCount = 1_000_000
    # Smallest allowed change in the number of common rows since an earlier run: the run stops if
    # the change is smaller, but not 0. 0: no check.
    differencing: Annotated[int, Field(ge=0)] = 0


class SplitSettings(ConfigTable):
    """Split of the rows into training, validation and test rows, the same at all parties."""

    # How test rows are chosen. keyed: by a keyed hash of the row's ID. official: all rows of the
    # test files are test rows. time: the newest rows, by a date that only the active party has (the
    # key time of its data); the newest of the others are validation rows. Rows of one date are not
    # separated, so these parts may be larger.
    kind: Literal["keyed", "official", "time"] = "keyed"
    validation: Fraction = 0.1  # fraction of the rows for validation
    test: Fraction | None = 0.2  # fraction of the rows for testing; not with kind = "official"

    @model_validator(mode="after")
    def _training_rows_remain(self) -> Self:
        if self.kind == "official" and "test" in self.model_fields_set:
            raise ValueError(
                "with kind = 'official' all rows of the test files are test rows, so the key "
                "'test' has no effect: remove the key 'test'"
            )
        test = 0.0 if self.kind == "official" else self.test
        if test is None or test + self.validation >= 1:
            raise ValueError(
                "the sum of 'validation' and 'test' must be below 1, so that rows remain for "
                "training"
            )
        return self


class MlpTop(ConfigTable):
    """Top model with fully connected layers; its input is the concatenated embeddings."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (32,)  # widths of the hidden layers


class SumTop(ConfigTable):
    """Top model that adds the parties' embeddings; an embedding has one number per class."""

    kind: Literal["sum"]


class ModuleTop(ConfigTable):
    """The active party's own ``nn.Module``; its input is the concatenated embeddings.

    The settings of the active party contain the import path.
    """

    kind: Literal["module"]
    source: Pin  # hash of the module's source file


Top: TypeAlias = Annotated[MlpTop | SumTop | ModuleTop, Field(discriminator="kind")]


class TrainingSettings(ConfigTable):
    """Settings of split learning."""

    added_later: ClassVar[frozenset[str]] = frozenset(
        {"class_weights", "continued", "monitor", "sample_weights"}
    )

    # Optimiser. newton-cg trains a convex head to its optimum with the settings of [newton]; the
    # other keys of this table are then unused.
    optimiser: Literal["adam", "sgd", "newton-cg"] = "adam"
    learning_rate: Positive = 1e-3
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # momentum of sgd
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    batch: Count = 64
    epochs: Count = 20
    # Number of epochs without a lower validation loss after which training stops; absent: no early
    # stopping.
    patience: Count | None = None
    # What early stopping watches: the validation loss, or the AUC on validation rows (several
    # classes: mean of one against the rest).
    monitor: Literal["loss", "auc"] = "loss"
    # Weights of the classes in the loss, for classes of which one has few rows. balanced: training
    # rows / (classes * training rows of the class). A table has one positive number for each class,
    # by name; absent: all 1.
    class_weights: Literal["balanced"] | dict[str, Positive] | None = None
    # Whether each row has a weight in the loss. The active party has the weights, in the column
    # data.weight of its settings; class_weights multiply them. Weights are divided by their mean
    # over the training rows, so only their ratios count.
    sample_weights: bool = False
    # How computation hides network latency. none: no overlap. microbatch: a step has two
    # micro-batches, and the gradient is the same except for rounding. pipeline: the next batch is
    # requested before the current batch ends, so gradients are one step late.
    overlap: Literal["none", "microbatch", "pipeline"] = "none"
    # How training starts. random: from random weights. local: every party first fits its bottom
    # model alone, then the active party fits the top model, and few joint epochs follow; the keys
    # 'epochs' and 'patience' have no effect on it then.
    start: Literal["random", "local"] = "random"
    local: FastStartSettings = FastStartSettings()  # settings of start = "local"
    # Settings of a training that goes on from a kept version (vfl-party --from).
    continued: ContinuedSettings = ContinuedSettings()

    @model_validator(mode="after")
    def _monitor_has_patience(self) -> Self:
        if self.monitor == "auc" and self.patience is None:
            raise ValueError(
                "monitor = 'auc' has an effect only with early stopping: set 'patience', or remove "
                "'monitor'"
            )
        return self

    @model_validator(mode="after")
    def _micro_batches_are_equal(self) -> Self:
        if self.overlap == "microbatch" and self.batch % 2:
            raise ValueError(
                "the key 'batch' is odd, but overlap = 'microbatch' splits each batch into two "
                "equal halves: set 'batch' to an even number"
            )
        return self


class RowRequest(ConfigTable):
    """Rows to forget or to correct: of the named classes, or listed by ID by the active party."""

    added_later: ClassVar[frozenset[str]] = frozenset({"corrects"})

    name: Name
    # Classes whose training rows are forgotten; empty: the rows are listed by ID in a file, which
    # the key unlearn of the active party's settings names.
    classes: tuple[str, ...] = ()
    fraction: Fraction = 1.0  # fraction of the training rows of these classes
    # Seed for sampling the fraction and the canaries.
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    # Number of forgotten rows that are trained with a wrong label, for membership audits.
    canaries: Annotated[int, Field(ge=0, lt=2**31)] = 0
    # Trigger for the backdoor audit; a run with a trigger does not measure the unlearning of clean
    # rows.
    backdoor: BackdoorSettings | None = None
    # Correct the labels of the rows in place of forgetting the rows. They are trained with a wrong
    # label, that of the next class; the request replaces it by their own label, and they stay.
    corrects: bool = False

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.corrects and (self.backdoor or self.canaries):
            raise ValueError(
                "a request with corrects = true plants wrong labels itself: remove 'canaries' and "
                "'backdoor'"
            )
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("the key 'classes' names a class twice: remove the second entry")
        if not self.classes and self.fraction != 1:
            raise ValueError(
                "the key 'fraction' works only with the key 'classes', because a request with a "
                "file of IDs forgets all rows of the file: set 'classes', or remove 'fraction'"
            )
        if self.backdoor and self.canaries:
            raise ValueError(
                "a request cannot have both keys 'canaries' and 'backdoor': remove one of the "
                "two keys"
            )
        return self


KEEP = "training.local.keep_embeddings"
FOREVER = 1e6  # seconds, about eleven days: longer than any run on one machine


class LimitSettings(ConfigTable):
    """Timeouts and size limits of a run."""

    join_seconds: Seconds = 120.0  # seconds within which all parties must connect
    step_seconds: Seconds = 30.0  # seconds that a peer may take for a reply
    idle_seconds: Seconds = 900.0  # seconds that a passive party waits for the hub's next message
    rejoin_seconds: SecondsOrNone = 60.0  # seconds that a lost party has to reconnect
    checkpoint_seconds: SecondsOrNone = 10.0  # shortest time between two checkpoints, in seconds
    magnitude: Positive = 1e4  # largest absolute value of an element of an embedding or gradient
    rows: Count = 20_000_000  # largest number of rows of a party in the intersection
    # Largest number of rows that a party computes at once in a pass over many rows; a smaller
    # number needs less memory.
    pass_rows: Count = 4096

    def without_timeouts(self) -> "LimitSettings":
        """Return these limits with ``FOREVER`` in place of every time to wait for another party.

        A party that must not reconnect (``rejoin_seconds`` = 0) still does not.
        """
        waits = {"join_seconds", "step_seconds", "idle_seconds"}
        waits |= {"rejoin_seconds"} if self.rejoin_seconds else set()
        return self.model_copy(update=dict.fromkeys(waits, FOREVER))


class VerticalAgreement(ConfigTable):
    """Agreement of a vertical run: the file that all parties share."""

    federation: Name
    mode: Literal["vertical"] = "vertical"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: Literal["float32", "float64"] = "float32"  # type of all parameters and embeddings
    parties: dict[Name, PartyEntry]
    labels: TargetSettings
    psi: PsiSettings = PsiSettings()
    requests: RequestSettings = RequestSettings()
    split: SplitSettings = SplitSettings()
    top: Top = MlpTop()  # network over the embeddings, at the active party
    # fitted: statistics of the training rows. declared: ranges and vocabulary from the party
    # settings, so that preprocessing contains no information about rows.
    preprocessing: Literal["fitted", "declared"] = "fitted"
    training: TrainingSettings = TrainingSettings()
    newton: NewtonSettings = NewtonSettings()
    sharding: ShardingSettings = ShardingSettings()
    unlearn: tuple[RowRequest, ...] = ()
    unlearning: UnlearningSettings
    evaluation: EvaluationSettings = EvaluationSettings()
    privacy: PrivacySettings = PrivacySettings()
    limits: LimitSettings = LimitSettings()

    @property
    def active(self) -> str:
        """Name of the active party, which holds the labels."""
        return next(name for name, party in self.parties.items() if party.role == "active")

    @property
    def passive(self) -> tuple[str, ...]:
        """Names of the passive parties, sorted."""
        return tuple(
            sorted(name for name, party in self.parties.items() if party.role == "passive")
        )

    @property
    def hub(self) -> str:
        """Name of the party to which all others connect: the active party."""
        return self.active

    @property
    def spokes(self) -> tuple[str, ...]:
        """Names of the parties that connect to the hub: the passive parties."""
        return self.passive

    @property
    def feature_parties(self) -> dict[str, PartyEntry]:
        """The parties that compute embeddings, in the order in which the top model uses them."""
        return {
            name: self.parties[name] for name in sorted(self.parties) if self.parties[name].width
        }

    @property
    def keeps_embeddings(self) -> bool:
        """Whether the active party keeps the embeddings of all rows; no bottom model is trained."""
        return self.training.start == "local" and self.training.local.keep_embeddings

    @property
    def frozen_bottoms(self) -> bool:
        """Whether the passive parties' bottom models keep their random weights, in every model."""
        return self.privacy.embed_once is not None or self.keeps_embeddings

    @property
    def may_fit_bottoms(self) -> bool:
        """Whether a party may fit a bottom model alone, and the active party a top model alone."""
        trained = self.training.optimiser != "newton-cg" and not self.frozen_bottoms
        return trained and self.top.kind != "sum"

    @property
    def fits_fallback(self) -> bool:
        """Whether every version of the model has embeddings for a fallback model, fitted for it."""
        return self.requests.absent == "fallback" and not self.keeps_embeddings

    @property
    def only_perceptrons(self) -> bool:
        """Whether every bottom model is a perceptron, of which a step takes milliseconds."""
        return all(isinstance(each.bottom, MlpBottom) for each in self.feature_parties.values())

    @property
    def architecture(self) -> dict[str, Any]:
        """Settings, as JSON, that a run must share with every saved model that the run loads."""
        parties = {"parties": {name: {"pins", "since"} for name in self.parties}}
        fields = {"federation", "dtype", "parties", "top", "sharding"}
        found = self.model_dump(mode="json", include=fields, exclude=parties)
        found["labels"] = self.labels.canonical()
        noise = self.privacy.of_embeddings
        found |= {"weighted_classes": True} if self.training.class_weights else {}
        found |= {"weighted_rows": True} if self.training.sample_weights else {}
        return found | ({"privacy": noise} if noise else {})

    @model_validator(mode="after")
    def _has_one_active_party(self) -> Self:
        active = [name for name, party in self.parties.items() if party.role == "active"]
        if len(active) != 1 or len(self.parties) < 2:
            raise ValueError(
                "a run needs exactly one active party and at least one passive party (active "
                f"parties: {', '.join(active) or 'none'})"
            )
        return self

    @model_validator(mode="after")
    def _guarantees_hold(self) -> Self:
        _refuse_broken_guarantees(self)
        return self

    @model_validator(mode="after")
    def _votes_fit_the_classes(self) -> Self:
        if isinstance(self.top, SumTop):
            for name, party in self.feature_parties.items():
                if party.width != self.labels.outputs:
                    raise ValueError(
                        f"top.kind = 'sum' needs width = {self.labels.outputs}, the number of "
                        f"classes, at every party; parties.{name}.width is {party.width}"
                    )
        return self

    @model_validator(mode="after")
    def _labels_suit_the_settings(self) -> Self:
        refuse_class_settings(self)
        return self

    @model_validator(mode="after")
    def _class_weights_fit_the_classes(self) -> Self:
        weights = self.training.class_weights
        if isinstance(weights, dict) and set(weights) != set(self.labels.classes):
            raise ValueError(
                "training.class_weights must have one number for each class: "
                f"{', '.join(self.labels.classes)} (got: {', '.join(weights) or 'none'})"
            )
        return self

    @model_validator(mode="after")
    def _sample_weights_hide_no_label(self) -> Self:
        if self.training.sample_weights and self.privacy.label_dp is not None:
            raise ValueError(
                "training.sample_weights and privacy.label_dp cannot be combined: gradients show "
                "the weight of a row, which may depend on its label: remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _methods_have_what_they_need(self) -> Self:
        object.__setattr__(self, "unlearning", self.unlearning.within(self))
        for table in self.unlearning.tables():
            table.check(self)
        return self

    @model_validator(mode="after")
    def _corrections_are_possible(self) -> Self:
        plan, kinds = self.unlearning, {each.corrects for each in self.unlearn}
        if len(kinds) == 2:
            raise ValueError(
                "requests that correct labels and requests that forget rows need separate runs: "
                "set corrects = true in all [[unlearn]] tables, or in none"
            )
        if True not in kinds:
            return self
        if plan.method not in plan.correcting:
            raise ValueError(
                f"unlearning.method = {plan.method!r} cannot correct labels (corrects = true): set "
                f"one of {', '.join(plan.correcting)}"
            )
        if self.evaluation.relearn or self.evaluation.shadows:
            raise ValueError(
                "evaluation.relearn and evaluation.shadows ask whether rows are still in the "
                "model, and rows whose labels are corrected stay: remove both"
            )
        return self

    @property
    def corrects(self) -> bool:
        """Whether the requests correct labels; else they forget rows."""
        return any(each.corrects for each in self.unlearn)

    @model_validator(mode="after")
    def _audits_have_what_they_need(self) -> Self:
        if not self.unlearning.retrains:
            refuse_full_audits(self.evaluation)
            if self.requests.audit == "full":
                raise ValueError(
                    "requests.audit = 'full' compares with Retrains, but unlearning.retrains is 0: "
                    "set unlearning.retrains to 2 or more, or requests.audit = 'quick'"
                )
        return self

    @model_validator(mode="after")
    def _local_start_is_possible(self) -> Self:
        if self.training.start == "local":
            require_local_start(self, "training.start = 'local'")
            self._require_independent_embeddings()
            if self.sharding.shards > 1:
                raise ValueError(
                    "training.start = 'local' does not support shards: remove sharding.shards, or "
                    "set training.start = 'random'"
                )
        return self

    @model_validator(mode="after")
    def _requests_name_known_classes(self) -> Self:
        for request in self.unlearn:
            for unknown in set(request.classes) - set(self.labels.classes):
                raise ValueError(
                    f"request {request.name!r} names the unknown class {unknown!r}; the classes "
                    f"are {', '.join(self.labels.classes)}"
                )
        names = [request.name for request in self.unlearn]
        if len(set(names)) < len(names):
            raise ValueError("two requests have the same name: rename one of them")
        return self

    @model_validator(mode="after")
    def _fallback_is_possible(self) -> Self:
        if self.requests.absent != "fallback":
            return self
        reasons = {
            "a kept model: set requests.keep = 'model'": self.requests.keep != "model",
            "bottom models that a party may fit alone, or training.local.keep_embeddings": not (
                self.may_fit_bottoms or self.keeps_embeddings
            ),
            "a single model: remove sharding.shards": self.sharding.shards > 1,
            "embeddings without noise: remove the noise of embeddings from privacy": bool(
                self.privacy.of_embeddings
            ),
        }
        for needed, lacking in reasons.items():
            if lacking:
                raise ValueError(f"requests.absent = 'fallback' needs {needed}")
        return self

    @model_validator(mode="after")
    def _frozen_bottoms_are_not_trained(self) -> Self:
        if self.frozen_bottoms and any(request.backdoor for request in self.unlearn):
            key = "privacy.embed_once" if self.privacy.embed_once else KEEP
            raise ValueError(
                f"with {key} a party sends the embedding of a row only once, so the "
                "backdoor audit cannot compare the row with the trigger and the row without it: "
                "remove the key 'backdoor' from the request"
            )
        return self

    def _require_independent_embeddings(self) -> None:
        """Refuse to keep embeddings that depend on other rows.

        Raises:
            ValueError: the message names the key to change.
        """
        plan = self.training.local
        if plan.keep_embeddings and plan.codes != "fixed":
            raise ValueError(
                f"{KEEP} needs bottom models that depend on no row: set training.local.codes = "
                "'fixed'"
            )
        if plan.keep_embeddings and self.preprocessing != "declared":
            raise ValueError(
                f"{KEEP} needs preprocessing that depends on no row: set preprocessing = 'declared'"
            )

    @model_validator(mode="after")
    def _backdoor_can_be_planted(self) -> Self:
        planted = [request.backdoor for request in self.unlearn if request.backdoor]
        check_backdoors(planted, self.passive, self.labels.classes)
        return self


def require_local_start(plan: VerticalAgreement, user: str) -> None:
    """Refuse settings under which no local start is possible; ``user`` names what needs one.

    Raises:
        ValueError: the message names the key to change.
    """
    if plan.training.optimiser == "newton-cg":
        raise ValueError(f"{user} needs training.optimiser 'adam' or 'sgd': set one of the two")
    if plan.top.kind == "sum":
        raise ValueError(
            f"{user} needs a top model that learns from embeddings, but top.kind = 'sum' adds "
            "votes: set top = { kind = 'mlp' }"
        )
    if plan.privacy.embed_once:
        raise ValueError(
            f"{user} fits bottom models, but privacy.embed_once keeps their random weights: "
            "remove one of the two"
        )


def _refuse_broken_guarantees(plan: VerticalAgreement) -> None:
    """Refuse settings under which an exact or certified method would lose its guarantee.

    Raises:
        ValueError: a setting breaks the guarantee; the message names the setting to use instead.
    """
    if plan.training.optimiser == "newton-cg":
        _refuse_nonconvex(plan)
    if plan.sharding.shards > 1 or plan.training.optimiser == "newton-cg":
        _refuse_fitted_choices(plan)
    if plan.unlearning.method == "newton-cg" and plan.training.optimiser != "newton-cg":
        raise ValueError(
            "unlearning.method = 'newton-cg' needs training.optimiser = 'newton-cg': set this "
            "optimiser, or choose another method"
        )
    sharded = plan.sharding.shards > 1
    if sharded is not (plan.unlearning.method == "sharded"):
        raise ValueError(
            "sharding.shards above 1 and unlearning.method = 'sharded' must be used together, but "
            "only one of them is set: set both, or neither of them"
        )
    if sharded and plan.unlearning.compare:
        raise ValueError(
            "unlearning.compare must be empty, because no baseline can run with sharding.shards "
            "above 1: set unlearning.compare = []"
        )
    if sharded and plan.training.optimiser == "newton-cg":
        raise ValueError(
            "sharding.shards above 1 and training.optimiser = 'newton-cg' cannot be combined: "
            "remove one of the two keys"
        )


def _refuse_nonconvex(plan: VerticalAgreement) -> None:
    """The certificate holds for softmax regression over summed votes, in float64."""
    if plan.top.kind != "sum":
        raise ValueError(
            "training.optimiser 'newton-cg' needs a convex loss: set top = { kind = 'sum' }"
        )
    for name, party in plan.feature_parties.items():
        if not _linear(party.bottom):
            raise ValueError(
                f"training.optimiser 'newton-cg' needs linear bottom models: set "
                f"parties.{name}.bottom = {{ kind = 'mlp', hidden = [] }}"
            )
    if plan.dtype != "float64":
        raise ValueError(
            "training.optimiser 'newton-cg' computes a certificate, which does not hold in "
            "float32: set dtype = 'float64'"
        )
    if plan.training.class_weights is not None:
        raise ValueError(
            "training.optimiser 'newton-cg' computes a certificate for the loss without class "
            "weights: remove training.class_weights"
        )
    if plan.training.sample_weights:
        raise ValueError(
            "training.optimiser 'newton-cg' computes a certificate for the loss without weights of "
            "rows: remove training.sample_weights"
        )
    if plan.training.overlap != "none":
        raise ValueError(
            "training.optimiser 'newton-cg' does not support overlap: set training.overlap = 'none'"
        )


def _linear(bottom: Bottom) -> bool:
    return bottom.kind == "mlp" and not bottom.hidden


def _refuse_fitted_choices(plan: VerticalAgreement) -> None:
    """Statistics and choices that were made by looking at rows still depend on deleted rows."""
    if plan.preprocessing != "declared":
        raise ValueError(
            "sharding.shards above 1 and training.optimiser 'newton-cg' do not allow statistics of "
            "the training rows in the preprocessing, because the statistics depend on the deleted "
            "rows: set preprocessing = 'declared'"
        )
    if plan.training.patience is not None:
        raise ValueError(
            "sharding.shards above 1 and training.optimiser 'newton-cg' do not allow early "
            "stopping, because the number of epochs would depend on the deleted rows: remove "
            "training.patience"
        )
    if plan.split.kind == "time":
        raise ValueError(
            "sharding.shards above 1 and training.optimiser 'newton-cg' do not allow split.kind = "
            "'time', because the dates of deleted rows decide which rows are training rows: set "
            "split.kind = 'keyed'"
        )
    if plan.training.class_weights == "balanced":
        raise ValueError(
            "sharding.shards above 1 and training.optimiser 'newton-cg' do not allow "
            "training.class_weights = 'balanced', because the weights depend on the deleted rows: "
            "set a table of numbers"
        )


@cache
def vertical_agreement(unlearning: type[UnlearningSettings]) -> type[VerticalAgreement]:
    """Build the class of an agreement whose table [unlearning] is of the class ``unlearning``."""
    default = unlearning.model_validate({})
    return create_model(
        "VerticalAgreement",
        __base__=VerticalAgreement,
        __doc__=VerticalAgreement.__doc__,
        unlearning=(unlearning, default),
    )
