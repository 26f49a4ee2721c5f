"""Agreement of a vertical run: every setting that all its parties must share."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.evaluation import BackdoorSettings, EvaluationSettings, check_backdoors
from configs.exact_methods import NewtonSettings, ShardingSettings
from configs.guarantees import refuse_broken_guarantees
from configs.privacy import PrivacySettings
from configs.table import ConfigTable, Count, Fraction, Name, Pin, Positive
from configs.unlearning import UnlearningSettings

Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000)]
SecondsOrNone: TypeAlias = Annotated[float, Field(ge=0, le=1_000_000)]  # 0 is legal, too
Widths: TypeAlias = tuple[Annotated[int, Field(ge=1, le=65_536)], ...]


class MlpBottom(ConfigTable):
    """Fully connected layers with ReLU between them; without a hidden layer a linear model."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (64,)  # widths of the hidden layers


class CnnBottom(ConfigTable):
    """Convolutions of 3x3 with GroupNorm, each halving the image, then one linear layer."""

    kind: Literal["cnn"]
    channels: Widths = (16, 32)  # output channels of the convolutions


class BackboneBottom(ConfigTable):
    """A known network for images, with GroupNorm and a first layer for small images."""

    kind: Literal["resnet18", "resnet50", "densenet121"]


class ModuleBottom(ConfigTable):
    """An ``nn.Module`` of the party itself, which its party settings name by import path."""

    kind: Literal["module"]
    source: Pin  # hash of the module's source file


Bottom: TypeAlias = Annotated[
    MlpBottom | CnnBottom | BackboneBottom | ModuleBottom, Field(discriminator="kind")
]


class PartyEntry(ConfigTable):
    """One party: its role and its part of the split model."""

    role: Literal["active", "passive"]
    # Width of the party's embeddings. A passive party needs it; an active party without it
    # contributes labels only.
    width: Count | None = None
    columns: Count | None = None  # columns that the party's table must have; absent: any number
    bottom: Bottom = MlpBottom()  # network that turns the party's columns into embeddings
    pins: tuple[Pin, ...] = ()
    # Number of rows that the other parties see, padding included; absent: the true number.
    declared_rows: Count | None = None

    @model_validator(mode="after")
    def _passive_party_has_features(self) -> Self:
        if self.role == "passive" and self.width is None:
            raise ValueError("a passive party needs width, the size of its embeddings")
        return self


QueryCount: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)]  # their tags fit in one message


class PsiSettings(ConfigTable):
    """Private set intersection."""

    # Adversary against whom the intersection is secure: hardened also covers a party that
    # departs from the protocol (psi/README.md).
    security: Literal["semi_honest", "hardened"] = "semi_honest"
    minimum: Count = 100  # smallest number of common rows; a smaller intersection stops the run
    # Largest number of rows that a hardened active party may ask for in a session.
    queries: QueryCount = 1_000_000
    # Smallest change of the number of common rows since an earlier run; a smaller change other
    # than 0 stops the run. 0: no check.
    differencing: Annotated[int, Field(ge=0)] = 0


class SplitSettings(ConfigTable):
    """Which rows are for training, validation and test: the same at every party, by keyed hash."""

    # keyed: the hash chooses the test rows; official: the rows of the test files are test rows.
    kind: Literal["keyed", "official"] = "keyed"
    validation: Fraction = 0.1  # fraction of the rows for validation
    test: Fraction | None = 0.2  # fraction of the rows for the test; not with kind = "official"

    @model_validator(mode="after")
    def _training_rows_remain(self) -> Self:
        if self.kind == "official" and "test" in self.model_fields_set:
            raise ValueError(
                "an official split takes its test rows from the test files: remove test"
            )
        test = 0.0 if self.kind == "official" else self.test
        if test is None or test + self.validation >= 1:
            raise ValueError("validation and test must leave rows for training")
        return self


class LabelSettings(ConfigTable):
    """Labels to predict."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)]  # names of the classes, in order

    @model_validator(mode="after")
    def _classes_are_unique(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("two classes have the same name")
        return self


class MlpTop(ConfigTable):
    """Fully connected layers over the concatenated embeddings."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (32,)  # widths of the hidden layers


class SumTop(ConfigTable):
    """The sum of the embeddings, one number per class: each party votes for the classes."""

    kind: Literal["sum"]


Top: TypeAlias = Annotated[MlpTop | SumTop, Field(discriminator="kind")]


class TrainingSettings(ConfigTable):
    """Split learning."""

    # Optimiser. newton-cg trains a convex head to its optimum with the settings of [newton]; the
    # other keys of this table are then unused.
    optimiser: Literal["adam", "sgd", "newton-cg"] = "adam"
    learning_rate: Positive = 1e-3
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # momentum of sgd
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    batch: Count = 64
    epochs: Count = 20
    # Epochs without a better validation loss after which training stops; absent: no early stop.
    patience: Count | None = None
    # How computation hides network latency. none: no overlap. microbatch: two micro-batches per
    # step, with the same gradient except for rounding. pipeline: the next batch is requested
    # before this batch ends, so gradients are one step late.
    overlap: Literal["none", "microbatch", "pipeline"] = "none"

    @model_validator(mode="after")
    def _micro_batches_are_equal(self) -> Self:
        if self.overlap == "microbatch" and self.batch % 2:
            raise ValueError("overlap = 'microbatch' halves each batch: batch must be even")
        return self


class RowRequest(ConfigTable):
    """Rows to forget: a fraction of some classes, or the IDs in a file of the active party."""

    name: Name
    # Classes whose training rows are forgotten; empty: the IDs in the file that unlearn in the
    # active party's settings names.
    classes: tuple[str, ...] = ()
    fraction: Fraction = 1.0  # fraction of the training rows of these classes
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # seed of the drawn fraction and the canaries
    # Number of forgotten rows that are trained with a wrong label, for membership audits.
    canaries: Annotated[int, Field(ge=0, lt=2**31)] = 0
    # Trigger for a separate audit; a run with it does not measure the unlearning of clean rows.
    backdoor: BackdoorSettings | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes names a class twice")
        if not self.classes and self.fraction != 1:
            raise ValueError("fraction needs classes: a file of IDs is forgotten as a whole")
        if self.backdoor and self.canaries:
            raise ValueError("canaries and backdoor cannot be in one run: remove one of them")
        return self


class LimitSettings(ConfigTable):
    """Timeouts and bounds after which a party stops."""

    join_seconds: Seconds = 120.0  # seconds until all parties must be connected
    step_seconds: Seconds = 30.0  # seconds that a peer may take for a reply
    idle_seconds: Seconds = 900.0  # seconds that a passive party waits for the hub's next message
    rejoin_seconds: SecondsOrNone = 60.0  # seconds that a lost party has to reconnect
    checkpoint_seconds: SecondsOrNone = 10.0  # shortest time between two checkpoints, in seconds
    magnitude: Positive = 1e4  # largest absolute value of an element of an embedding or gradient
    rows: Count = 20_000_000  # largest number of rows that a party may bring to the intersection
    pass_rows: Count = 4096  # rows of one message in a pass over many rows; fewer need less memory


class VerticalAgreement(ConfigTable):
    """One vertical run: the file that all parties share."""

    federation: Name
    mode: Literal["vertical"] = "vertical"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: Literal["float32", "float64"] = "float32"  # type of all parameters and embeddings
    parties: dict[Name, PartyEntry]
    labels: LabelSettings
    psi: PsiSettings = PsiSettings()
    split: SplitSettings = SplitSettings()
    top: Top = MlpTop()  # network over the embeddings, at the active party
    # fitted: statistics of the training rows. declared: ranges and vocabulary from the party
    # settings, so that preprocessing contains no information about rows.
    preprocessing: Literal["fitted", "declared"] = "fitted"
    training: TrainingSettings = TrainingSettings()
    newton: NewtonSettings = NewtonSettings()
    sharding: ShardingSettings = ShardingSettings()
    unlearn: tuple[RowRequest, ...] = ()
    unlearning: UnlearningSettings = UnlearningSettings()
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
        """Parties with embeddings, in the order in which the top model concatenates them."""
        return {
            name: self.parties[name] for name in sorted(self.parties) if self.parties[name].width
        }

    @property
    def architecture(self) -> dict[str, Any]:
        """The settings, as JSON, in which a saved model and its users must agree."""
        parties = {"parties": {name: {"pins"} for name in self.parties}}
        fields = {"federation", "dtype", "parties", "labels", "top", "sharding"}
        found = self.model_dump(mode="json", include=fields, exclude=parties)
        noise = self.privacy.of_embeddings
        return found | ({"privacy": noise} if noise else {})

    @model_validator(mode="after")
    def _has_one_active_party(self) -> Self:
        active = [name for name, party in self.parties.items() if party.role == "active"]
        if len(active) != 1 or len(self.parties) < 2:
            raise ValueError(
                "a run needs one active party and at least one passive party; active parties "
                f"here: {', '.join(active) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _guarantees_hold(self) -> Self:
        refuse_broken_guarantees(self)
        return self

    @model_validator(mode="after")
    def _votes_fit_the_classes(self) -> Self:
        if isinstance(self.top, SumTop):
            for name, party in self.feature_parties.items():
                if party.width != len(self.labels.classes):
                    raise ValueError(
                        f"top.kind = 'sum' needs width = {len(self.labels.classes)}, the number of "
                        f"classes, at every party; parties.{name}.width is {party.width}"
                    )
        return self

    @model_validator(mode="after")
    def _cvfu_has_what_it_needs(self) -> Self:
        plan = self.unlearning
        if "cvfu" not in (plan.method, *plan.compare):
            return self
        if not isinstance(self.top, SumTop):
            raise ValueError(
                "cvfu caches the sum of the parties' votes: it needs [top] kind = 'sum' and "
                "width = number of classes at every party; otherwise remove cvfu from unlearning"
            )
        offline = set(plan.cvfu.offline)
        if not offline < set(self.passive):
            raise ValueError(
                f"unlearning.cvfu.offline names {', '.join(sorted(offline))}; legal: passive "
                f"parties ({', '.join(self.passive)}), but not all of them"
            )
        return self

    @model_validator(mode="after")
    def _requests_name_known_classes(self) -> Self:
        for request in self.unlearn:
            for unknown in set(request.classes) - set(self.labels.classes):
                raise ValueError(
                    f"request {request.name!r} names class {unknown!r}; "
                    f"the classes are {', '.join(self.labels.classes)}"
                )
        names = [request.name for request in self.unlearn]
        if len(set(names)) < len(names):
            raise ValueError("two requests have the same name")
        return self

    @model_validator(mode="after")
    def _frozen_bottoms_are_not_trained(self) -> Self:
        plan = self.unlearning
        if self.privacy.embed_once and "cvfu" in (plan.method, *plan.compare):
            raise ValueError(
                "privacy.embed_once freezes the parties' networks, and cvfu changes only these: "
                "remove cvfu from unlearning"
            )
        if self.privacy.embed_once and any(request.backdoor for request in self.unlearn):
            raise ValueError(
                "privacy.embed_once releases every row once, so a row cannot be measured with and "
                "without a trigger: remove backdoor from the request"
            )
        return self

    @model_validator(mode="after")
    def _backdoor_can_be_planted(self) -> Self:
        planted = [request.backdoor for request in self.unlearn if request.backdoor]
        check_backdoors(planted, self.passive, self.labels.classes)
        return self
