"""The agreement: every setting that all parties of a run must share."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.evaluation import Backdoor, Evaluation, refuse_misplaced
from configs.exact import Newton, Sharding
from configs.privacy import Privacy
from configs.promises import refuse_broken_promises
from configs.table import Count, Fraction, Name, Pin, Positive, Table
from configs.unlearning import Unlearning

Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000)]
Pause: TypeAlias = Annotated[float, Field(ge=0, le=1_000_000)]  # seconds; may be none
Widths: TypeAlias = tuple[Annotated[int, Field(ge=1, le=65_536)], ...]


class MlpBottom(Table):
    """Fully connected layers with ReLU between; no hidden layer makes it linear."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (64,)


class CnnBottom(Table):
    """3x3 convolutions with GroupNorm, each halving the image, then one linear layer."""

    kind: Literal["cnn"]
    channels: Widths = (16, 32)


class BackboneBottom(Table):
    """A network of the literature for images, with GroupNorm and a stem for small images."""

    kind: Literal["resnet18", "resnet50", "densenet121"]


class ModuleBottom(Table):
    """A party's own ``nn.Module``: its seat names the import path, here is its source's hash."""

    kind: Literal["module"]
    source: Pin


Bottom: TypeAlias = Annotated[
    MlpBottom | CnnBottom | BackboneBottom | ModuleBottom, Field(discriminator="kind")
]


class Party(Table):
    """One organisation: its role and its half of the model."""

    role: Literal["active", "passive"]
    width: Count | None = None  # of its embeddings; the active party may bring none
    columns: Count | None = None  # of its table: it stops when it holds another number; None: any
    bottom: Bottom = MlpBottom()
    pins: tuple[Pin, ...] = ()
    declared_rows: Count | None = None  # peers see this number of rows, whatever it brings

    @model_validator(mode="after")
    def _passive_brings_features(self) -> Self:
        if self.role == "passive" and self.width is None:
            raise ValueError("a passive party needs width, the size of its embeddings")
        return self


Queries: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)]  # their tags fit in one message


class Psi(Table):
    """Private set intersection."""

    security: Literal["semi_honest", "hardened"] = "semi_honest"  # hardened: psi/README.md
    minimum: Count = 100  # common rows below which the run stops
    queries: Queries = 1_000_000  # rows that a hardened active party may ask for in a session
    differencing: Annotated[int, Field(ge=0)] = 0  # fewer changed common rows stop it; 0: none


class Split(Table):
    """Which rows are for training, validation and test: the same at every party, by keyed hash."""

    kind: Literal["keyed", "official"] = (
        "keyed"  # official: rows of the test files are the test rows
    )
    validation: Fraction = 0.1
    test: Fraction | None = 0.2

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.kind == "official" and "test" in self.model_fields_set:
            raise ValueError("an official split takes its test rows from the test files; drop test")
        test = 0.0 if self.kind == "official" else self.test
        if test is None or test + self.validation >= 1:
            raise ValueError("validation and test must leave rows for training")
        return self


class Labels(Table):
    """What is predicted: the names of the classes, in order."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _different(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("two classes bear one name")
        return self


class MlpTop(Table):
    """Fully connected layers over the concatenated embeddings."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (32,)


class SumTop(Table):
    """Every party's embedding is its vote for each class; the top model adds them up."""

    kind: Literal["sum"]


Top: TypeAlias = Annotated[MlpTop | SumTop, Field(discriminator="kind")]


class Training(Table):
    """Split learning."""

    # newton-cg: to the optimum of a convex head, by [newton]; the other settings are then unused.
    optimiser: Literal["adam", "sgd", "newton-cg"] = "adam"
    learning_rate: Positive = 1e-3
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # of sgd
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    batch: Count = 64
    epochs: Count = 20
    patience: Count | None = None  # epochs without a better validation loss; None: no early stop
    # What hides the network: nothing; two micro-batches a step, the same gradient but for rounding;
    # or the next batch asked for before this one is answered, its gradients being one step late.
    overlap: Literal["none", "microbatch", "pipeline"] = "none"

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.overlap == "microbatch" and self.batch % 2:
            raise ValueError("overlap = 'microbatch' cuts batches in halves: batch must be even")
        return self


class Request(Table):
    """Rows to forget: a part of some classes, or the IDs in a file of the active party's seat."""

    name: Name
    classes: tuple[str, ...] = ()
    fraction: Fraction = 1.0  # of the training rows of these classes
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # draws the fraction and the canaries
    canaries: Annotated[int, Field(ge=0, lt=2**31)] = (
        0  # rows among them that train on a wrong label
    )
    backdoor: Backdoor | None = (
        None  # an audit of its own: a run with it says nothing of a clean one
    )

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("a class is named twice")
        if not self.classes and self.fraction != 1:
            raise ValueError("fraction goes with classes; a file of IDs is taken whole")
        if self.backdoor and self.canaries:
            raise ValueError("canaries and a backdoor would disturb each other: one of them a run")
        return self


class Limits(Table):
    """When a party gives up."""

    join_seconds: Seconds = 120.0
    step_seconds: Seconds = 30.0
    idle_seconds: Seconds = 900.0
    rejoin_seconds: Pause = 60.0  # that a lost party is given to come back
    checkpoint_seconds: Pause = 10.0  # between two checkpoints, at least
    magnitude: Positive = 1e4  # of an element of an embedding or gradient
    rows: Count = 20_000_000  # that a party may bring to the intersection
    pass_rows: Count = 4096  # of one question about many rows: fewer need less memory


class Agreement(Table):
    """One run, as all parties must describe it."""

    federation: Name
    mode: Literal["vertical"] = "vertical"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: Literal["float32", "float64"] = "float32"
    parties: dict[Name, Party]
    labels: Labels
    psi: Psi = Psi()
    split: Split = Split()
    top: Top = MlpTop()
    # declared: each seat gives ranges and vocabulary, so that no row ever enters them.
    preprocessing: Literal["fitted", "declared"] = "fitted"
    training: Training = Training()
    newton: Newton = Newton()
    sharding: Sharding = Sharding()
    unlearn: tuple[Request, ...] = ()
    unlearning: Unlearning = Unlearning()
    evaluation: Evaluation = Evaluation()
    privacy: Privacy = Privacy()
    limits: Limits = Limits()

    @property
    def active(self) -> str:
        """The party that holds the labels."""
        return next(name for name, party in self.parties.items() if party.role == "active")

    @property
    def passive(self) -> tuple[str, ...]:
        """The other parties, by name."""
        return tuple(
            sorted(name for name, party in self.parties.items() if party.role == "passive")
        )

    @property
    def hub(self) -> str:
        """Whom the others dial."""
        return self.active

    @property
    def spokes(self) -> tuple[str, ...]:
        """Who dials."""
        return self.passive

    @property
    def feature_parties(self) -> dict[str, Party]:
        """Those who bring embeddings, in the order in which the top model takes them."""
        return {
            name: self.parties[name] for name in sorted(self.parties) if self.parties[name].width
        }

    @property
    def architecture(self) -> dict[str, Any]:
        """What a trained model must have in common with those who use it, as JSON."""
        parties = {"parties": {name: {"pins"} for name in self.parties}}
        fields = {"federation", "dtype", "parties", "labels", "top", "sharding"}
        found = self.model_dump(mode="json", include=fields, exclude=parties)
        noise = self.privacy.of_embeddings
        return found | ({"privacy": noise} if noise else {})

    @model_validator(mode="after")
    def _one_active(self) -> Self:
        active = [name for name, party in self.parties.items() if party.role == "active"]
        if len(active) != 1 or len(self.parties) < 2:
            raise ValueError(
                "a run has one active party and at least one passive; "
                f"active here: {', '.join(active) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _promises(self) -> Self:
        refuse_broken_promises(self)
        return self

    @model_validator(mode="after")
    def _votes_fit_classes(self) -> Self:
        if isinstance(self.top, SumTop):
            for name, party in self.feature_parties.items():
                if party.width != len(self.labels.classes):
                    raise ValueError(
                        f"the sum of votes needs width = {len(self.labels.classes)}, the number of "
                        f"classes, at every party; {name} has {party.width}"
                    )
        return self

    @model_validator(mode="after")
    def _cvfu_adds_votes_up(self) -> Self:
        plan = self.unlearning
        if "cvfu" not in (plan.method, *plan.compare):
            return self
        if not isinstance(self.top, SumTop):
            raise ValueError(
                "cvfu caches the sum of the parties' votes: it needs [top] kind = 'sum' and "
                "width = number of classes at every party; take it out of unlearning, or say so"
            )
        offline = set(plan.cvfu.offline)
        if not offline < set(self.passive):
            raise ValueError(
                f"unlearning.cvfu.offline names {', '.join(sorted(offline))}; legal: passive "
                f"parties ({', '.join(self.passive)}), but not all of them"
            )
        return self

    @model_validator(mode="after")
    def _requests_name_classes(self) -> Self:
        for request in self.unlearn:
            for unknown in set(request.classes) - set(self.labels.classes):
                raise ValueError(
                    f"request {request.name!r} names class {unknown!r}; "
                    f"the classes are {', '.join(self.labels.classes)}"
                )
        names = [request.name for request in self.unlearn]
        if len(set(names)) < len(names):
            raise ValueError("two requests bear one name")
        return self

    @model_validator(mode="after")
    def _nothing_needs_what_is_frozen(self) -> Self:
        plan = self.unlearning
        if self.privacy.embed_once and "cvfu" in (plan.method, *plan.compare):
            raise ValueError(
                "privacy.embed_once freezes the parties' networks, and cvfu changes nothing else: "
                "take cvfu out of unlearning"
            )
        if self.privacy.embed_once and any(request.backdoor for request in self.unlearn):
            raise ValueError(
                "privacy.embed_once releases every row once, so a row cannot be shown with and "
                "without a trigger: take the backdoor out of the request"
            )
        return self

    @model_validator(mode="after")
    def _backdoor_can_be_planted(self) -> Self:
        planted = [request.backdoor for request in self.unlearn if request.backdoor]
        refuse_misplaced(planted, self.passive, self.labels.classes)
        return self
