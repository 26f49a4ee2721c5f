"""Agreement of a horizontal run: clients hold different rows with the same columns."""

from functools import cache
from operator import not_
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, create_model, model_validator

from configs.agreement import SplitSettings, Widths
from configs.client_unlearning import ClientUnlearning
from configs.columns import AgreedColumn, width_of
from configs.config_file import ConfigFile
from configs.federated import FederatedAgreement, RequestBase, RoundSettings
from configs.party_settings import PartySettingsBase
from configs.secagg_rules import method_problems, settings_problems
from configs.table import ConfigTable, Count, Fraction, Name, Positive
from configs.targets import LabelSettings

Shape: TypeAlias = Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)]


class WholeMlp(ConfigTable):
    """Fully connected layers with ReLU between them; without hidden layers the model is linear."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (400, 400)  # widths of the hidden layers


class WholeNetwork(ConfigTable):
    """A standard network for images: LeNet-5, a CNN of FedOSD or of Mimir, or ResNet-18.

    Both CNNs have two 5x5 convolutions. ``cnn`` (FedOSD): 64 and 64 channels, hidden layers of
    widths 384 and 192. ``mimir-cnn``: 32 and 64 channels, one hidden layer of width 512.
    """

    kind: Literal["lenet5", "cnn", "mimir-cnn", "resnet18"]


Network: TypeAlias = Annotated[WholeMlp | WholeNetwork, Field(discriminator="kind")]


class SharedModel(ConfigTable):
    """No personalisation: all clients share one model."""

    kind: Literal["none"] = "none"


class FedPer(ConfigTable):
    """FedPer: each client has its own last layer."""

    kind: Literal["fedper"]


class PerFedAvg(ConfigTable):
    """Per-FedAvg (first order): one local step adapts the shared model to the client."""

    kind: Literal["per-fedavg"]
    inner: Positive = 0.01  # learning rate α of the adapting step


class MimirPrompts(ConfigTable):
    """Mimir: a prompt per client, generated from the client's own descriptor."""

    kind: Literal["mimir"]
    decay: Annotated[float, Field(ge=0)] = 0.1  # weight decay λ₁ and λ₂ of the generator
    keys: Count = 8  # width l_k of the generator's queries and keys
    values: Count = 8  # width l_v of the generator's values
    spread: Positive = 1.0  # standard deviation of the clients' random descriptors


class Gpfl(ConfigTable):
    """GPFL: a small network (the conditional valve) separates global and personal features."""

    kind: Literal["gpfl"]
    # Weight of the distance between the features of a batch and the embeddings of their classes.
    weight: Annotated[float, Field(ge=0)] = 0.01


PersonalPlan: TypeAlias = Annotated[
    SharedModel | FedPer | PerFedAvg | MimirPrompts | Gpfl, Field(discriminator="kind")
]


class OwnData(ConfigTable):
    """Every client reads its own data."""

    kind: Literal["own"] = "own"


class Iid(ConfigTable):
    """One data set, divided at random into equal parts, one part per client."""

    kind: Literal["iid"]


class Pathological(ConfigTable):
    """Every client holds rows of some classes only, such as 20 % of the classes (Pat-20).

    If the clients together hold fewer classes than there are, the rows of the last classes are used
    by no client; the run's record and its report name these classes.
    """

    kind: Literal["pathological"]
    share: Fraction = 0.2  # fraction of the classes that each client holds


class Dirichlet(ConfigTable):
    """Each class is divided among the clients in shares from a Dirichlet distribution."""

    kind: Literal["dirichlet"]
    concentration: Positive = 0.1  # concentration ζ of the distribution
    min_rows: Count = 20  # smallest number of rows of a client
    # Whether all clients get equally many rows: a client that has its part of all rows gets no more
    # rows.
    balanced: bool = Field(default=False, exclude_if=not_)


Partition: TypeAlias = Annotated[
    OwnData | Iid | Pathological | Dirichlet, Field(discriminator="kind")
]


class HorizontalRoundSettings(RoundSettings):
    """Federated averaging of networks that the clients train with SGD."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    # Number of clusters of clients, for the method 'knot'; each cluster trains a separate model,
    # and the result is the mean of these models.
    clusters: Count = 1


class TriggerSettings(ConfigTable):
    """A backdoor in the leaving client's rows; the run tests whether unlearning removes it."""

    # Pixels that the trigger changes, of 3x3 pixels at the bottom right. random: about half of
    # them, to grey 2/3, as in FedOSD's code. square: all of them, to white. cross: both diagonals,
    # to white.
    pattern: Literal["square", "random", "cross"] = "random"
    share: Fraction = 0.8  # fraction of the leaving client's rows that get the trigger
    shift: Count = 5  # a row of class y is trained as class y + shift, modulo the number of classes
    target: str | None = None  # class of all rows with the trigger; absent: see shift
    # Whether all forgotten rows have the trigger during unlearning, as in FedOSD's code. If not,
    # unlearning also uses the clean rows, and the model then assigns rows with the trigger to wrong
    # classes, one of which is the backdoor's class.
    everywhere: bool = False


class ClientRequest(RequestBase):
    """A deletion request: rows of a client, rows of some classes, or both."""

    classes: tuple[str, ...] = ()  # classes of the rows that are forgotten; empty: all classes
    trigger: TriggerSettings | None = None  # backdoor that the leaving client plants; absent: none

    @property
    def leaver(self) -> str | None:
        """Name of the client whose rows are all forgotten; None if there is no such client."""
        return None if self.classes else super().leaver

    @model_validator(mode="after")
    def _names_a_client_or_classes(self) -> Self:
        if self.client is None and not self.classes:
            raise ValueError(
                "a request has neither the key 'client' nor the key 'classes': set one of the two "
                "keys, or both"
            )
        if self.trigger and (self.client is None or self.classes or self.fraction != 1):
            raise ValueError(
                "a request with the key 'trigger' must forget all rows of one client: set the key "
                "'client', and remove the keys 'classes' and 'fraction'"
            )
        return self


class ListedClientRequest(ClientRequest):
    """A request after the run, whose rows the client names in a list that no other party sees."""

    has_list: ClassVar[bool] = True

    @property
    def leaver(self) -> None:
        """None: the request is for some rows of the client."""
        return


class HistorySettings(ConfigTable):
    """Updates that the server saves during training, for methods that need past updates."""

    # N: the server saves the clients' updates in every N-th round. 0: never.
    every: Annotated[int, Field(ge=0)] = 0


class ClientEvaluation(ConfigTable):
    """Measurements in addition to accuracy, trigger accuracy and membership inference."""

    # Reverting test: number of training rounds of the remaining clients after unlearning. All
    # measurements are repeated after these rounds. 0: no test.
    revert: Annotated[int, Field(ge=0, le=100_000)] = 0
    # Whether each remaining client reports, in each round of unlearning, if the step conflicts with
    # the client's gradient.
    conflicts: bool = False
    # Remaining client whose whole model, personal parameters included, is also measured on the
    # leaving clients' rows; absent: none.
    evaluator: Name | None = None


class ClientSplit(SplitSettings):
    """Split of a client's rows into training, validation and test rows."""

    # How test rows are chosen. keyed: by a keyed hash of the row's ID. official: all rows of the
    # test files are test rows.
    kind: Literal["keyed", "official"] = "keyed"
    validation: Fraction = 0.05  # fraction of the rows for validation
    test: Fraction | None = 0.15  # fraction of the rows for testing; not with kind = "official"


class HorizontalAgreement(FederatedAgreement):
    """Agreement of a horizontal run: the file that all parties share."""

    added_later: ClassVar[frozenset[str]] = FederatedAgreement.added_later | {"columns"}

    mode: Literal["horizontal"]
    labels: LabelSettings
    # The columns that the table of every client has, in this order, with a range or a vocabulary
    # each; then no client sets ranges or vocabularies. Empty: the clients' party settings have
    # them, and the program does not compare them.
    columns: tuple[AgreedColumn, ...] = ()
    # Shape of one row: [columns], or [channels, height, width]; with the key columns it is worked
    # out from them.
    shape: Shape = Field(default=())
    model: Network = WholeMlp()  # network that the clients train
    personal: PersonalPlan = SharedModel()  # personalisation of the clients' models
    partition: Partition = OwnData()  # how simulated clients get their rows
    split: ClientSplit = ClientSplit()
    training: HorizontalRoundSettings = HorizontalRoundSettings()
    history: HistorySettings = HistorySettings()
    unlearn: tuple[ClientRequest, ...] = ()
    unlearning: ClientUnlearning
    evaluation: ClientEvaluation = ClientEvaluation()

    @property
    def variants(self) -> frozenset[str]:
        """The names of methods that also run with other settings."""
        return frozenset(each.name for each in self.unlearning.variants)

    def request(
        self, name: str, client: str | None, classes: tuple[str, ...], fraction: float, seed: int
    ) -> ClientRequest:
        """Return a request that was raised after the training; see ``FederatedAgreement``."""
        return ClientRequest(
            name=name, client=client, classes=classes, fraction=fraction, seed=seed
        )

    def listed_request(self, name: str, client: str) -> ListedClientRequest:
        """Return a request whose rows only the client knows; see ``FederatedAgreement``."""
        return ListedClientRequest(name=name, client=client)

    @property
    def architecture(self) -> dict[str, Any]:
        """Settings, as JSON, that a run must share with every saved model that the run loads."""
        fields = {"federation", "labels", "shape", "model", "personal"}
        fields |= {"columns"} if self.columns else set()
        return self.model_dump(mode="json", include=fields)

    @model_validator(mode="after")
    def _columns_give_the_shape(self) -> Self:
        if not self.columns and not self.shape:
            raise ValueError(
                "'shape' is missing: set shape = [columns] or [channels, height, width], or list "
                "the clients' columns under the key 'columns'"
            )
        if self.columns:
            found = (width_of(self.columns),)
            if self.shape not in ((), found):
                raise ValueError(
                    f"shape is {list(self.shape)}, but the key 'columns' gives {list(found)}: "
                    "remove the key 'shape'"
                )
            object.__setattr__(self, "shape", found)
        return self

    @model_validator(mode="after")
    def _requests_name_known_classes(self) -> Self:
        for each in self.unlearn:
            target = each.trigger.target if each.trigger else None
            for unknown in {*each.classes, *filter(None, [target])} - set(self.labels.classes):
                raise ValueError(
                    f"request {each.name!r} names the unknown class {unknown!r}; the classes are "
                    f"{', '.join(self.labels.classes)}"
                )
        planted = [each.name for each in self.unlearn if each.trigger]
        if len(planted) > 1:
            raise ValueError(
                f"requests {', '.join(planted)} have the key 'trigger', but a run can measure "
                "only one trigger: keep the key in one request"
            )
        for each in self.unlearn:
            plan, count = each.trigger, len(self.labels.classes)
            if plan and plan.target is None and not plan.shift % count:
                raise ValueError(
                    f"trigger.shift {plan.shift} is a multiple of {count}, the number of classes, "
                    "so every row would keep its class: choose another shift"
                )
        if planted and len(self.shape) != 3:
            raise ValueError(
                f"request {planted[0]!r} has the key 'trigger', but only images can have a "
                "trigger: set shape = [channels, height, width]"
            )
        return self

    @model_validator(mode="after")
    def _kept_model_suffices_for_requests(self) -> Self:
        if self.requests.keep != "model":
            return self
        reasons = {
            f"the personal parameters of the clients (personal.kind = {self.personal.kind!r})":
                self.personal.kind != "none",
            f"the models of clusters (training.clusters = {self.training.clusters})":
                self.training.clusters > 1,
            "the updates of the training (history.every above 0)": self.history.every > 0,
        }  # fmt: skip
        for reason, holds in reasons.items():
            if holds:
                raise ValueError(
                    "requests.keep = 'model' keeps the shared model alone, without "
                    f"{reason}: set requests.keep = 'nothing'"
                )
        return self

    @model_validator(mode="after")
    def _secure_aggregation_suffices(self) -> Self:
        sums, plan = self.aggregation, self.unlearning
        if sums.kind == "none":
            return self
        if self.history.every:
            raise ValueError(
                "history.every saves each client's updates, but with aggregation.kind = "
                f"{sums.kind!r} the server receives only their sum: set history.every = 0"
            )
        if self.evaluation.conflicts:
            raise ValueError(
                "evaluation.conflicts needs a report from each client, but with aggregation.kind = "
                f"{sums.kind!r} the server receives only sums over clients: set "
                "evaluation.conflicts = false"
            )
        chosen = [("unlearning.method", plan.method)]
        chosen += [("unlearning.compare", each) for each in plan.compare]
        chosen += [("unlearning.variants", each.method) for each in plan.variants]
        later = self.requests.keep == "model"  # a client may ask after the run
        if later and not self.unlearn:
            chosen = chosen[:1]
        elif not self.unlearn:  # without a request only explicit settings are checked
            chosen = [each for each in chosen if each[0].split(".")[1] in plan.model_fields_set]
        alone = later or any(each.client is not None for each in self.unlearn)
        hidden = method_problems(sums.kind, plan, chosen, one_leaves=alone)
        for problem in (*hidden, *settings_problems(sums.kind, plan)):
            raise ValueError(problem)
        return self

    def require_history(self, method: str) -> None:
        """Check that the updates of all rounds are saved, and that the server adds their mean.

        Raises:
            ValueError: a rule is broken; the message names ``method`` and the key to change.
        """
        rule = self.training.rule
        if not self.history.every:
            raise ValueError(
                f"{method} needs the updates of all training rounds: set history.every = 1"
            )
        if rule.kind != "fedavg" or rule.rate not in (None, 1.0):
            raise ValueError(
                f"{method} works only if the server adds the clients' mean update unchanged: "
                f"choose training.rule.kind = 'fedavg' and training.rule.rate = 1"
            )

    def require_second_model(self, method: str) -> None:
        """Check that the clients can train a second model.

        Raises:
            ValueError: a client has personal parameters for only one model.
        """
        if self.personal.kind in ("fedper", "mimir", "gpfl"):
            raise ValueError(
                f"{method} trains a second model, but with personal.kind = "
                f"{self.personal.kind!r} a client has only one set of personal parameters: "
                f"set personal.kind = 'none', or remove {method}"
            )

    def require_images(self, method: str) -> None:
        """Check that the rows are images whose sides are multiples of four.

        Raises:
            ValueError: the rows have another shape.
        """
        if len(self.shape) != 3 or any(side % 4 for side in self.shape[1:]):
            raise ValueError(
                f"{method} generates images: shape must be [channels, height, width], and "
                f"height and width must be multiples of four (got {list(self.shape)})"
            )

    @model_validator(mode="after")
    def _methods_have_what_they_need(self) -> Self:
        plan = self.unlearning
        tables = [table for _, table in plan.tables()] if self.unlearn else []
        if self.requests.keep == "model" and (own := plan.table(plan.method)) is not None:
            tables.append(own)
        for table in tables:
            table.check(self)
        return self

    @model_validator(mode="after")
    def _named_clients_remain(self) -> Self:
        evaluator, gone = self.evaluation.evaluator, {each.client for each in self.unlearn}
        named = (
            ("evaluation.evaluator", evaluator),
            ("unlearning.target_client", self.unlearning.target_client),
        )
        for place, name in named:
            if name is None:
                continue
            if name not in self.spokes or gone & {name, None}:
                raise ValueError(
                    f"{place} must name a client whose rows no request forgets (got {name!r})"
                )
            if self.aggregation.kind != "none":
                raise ValueError(
                    f"{place} needs the model of one client, but with aggregation.kind = "
                    f"{self.aggregation.kind!r} the server receives only sums over all clients: "
                    "set aggregation.kind = 'none'"
                )
        running = [table for _, table in self.unlearning.tables()] if self.unlearn else []
        used = any(getattr(each, "uses_target_client", False) for each in running)
        if self.unlearning.target_client and running and not used:
            raise ValueError(
                f"only {self.unlearning.methods_with_target()} use unlearning.target_client, but "
                "the run has none of these methods: remove the key 'target_client'"
            )
        if evaluator is not None and self.personal.kind in ("per-fedavg", "gpfl"):
            raise ValueError(
                f"with personal.kind = {self.personal.kind!r} a client's model depends on the "
                "client's own rows, so the model of evaluation.evaluator cannot be measured on the "
                "rows of other clients: remove the key 'evaluator'"
            )
        return self

    def _check_clusters_with_sums(self) -> None:
        """Refuse clusters whose rounds, or repeated rounds, sum too few clients.

        Raises:
            ValueError: a cluster is too small, or each round samples clients.
        """
        fewest = len(self.spokes) // self.training.clusters
        smallest = self.aggregation.min_contributors
        if fewest < smallest:
            raise ValueError(
                f"the smallest cluster has only {fewest} clients, but "
                f"aggregation.min_contributors is {smallest}: reduce training.clusters, or add "
                "clients"
            )
        if self.training.share < 1:
            raise ValueError(
                "with training.share below 1 only some clients take part in a round; the method "
                "'knot' repeats rounds, and the difference between the sum of a round and the sum "
                "of the repeated round can reveal one client's update: set training.share = 1"
            )

    @model_validator(mode="after")
    def _clusters_can_repeat_rounds(self) -> Self:
        plan, count = self.training, self.training.clusters
        methods = (self.unlearning.method, *self.unlearning.compare)
        if (count > 1) is not ("knot" in methods):
            raise ValueError(
                "training.clusters above 1 and the method 'knot' must be used together, but only "
                "one of them is set: set both, or neither of them"
            )
        if count == 1:
            return self
        if count > len(self.spokes):
            raise ValueError(
                f"training.clusters must not exceed the number of clients (got {count} clusters "
                f"and {len(self.spokes)} clients)"
            )
        if self.aggregation.kind != "none":
            self._check_clusters_with_sums()
        if plan.rule.kind != "fedavg":
            raise ValueError(
                "the method 'knot' returns to an earlier model of a cluster, but the server does "
                "not save the moments that training.rule had at this model: set "
                "training.rule.kind = 'fedavg'"
            )
        if self.personal.kind not in ("none", "per-fedavg"):
            raise ValueError(
                "the method 'knot' returns to an earlier model of a cluster, but clients do not "
                "save the personal parameters that they had at this model: set personal.kind = "
                "'none'"
            )
        if self.history.every:
            raise ValueError(
                "history.every saves the updates of a single model, but with training.clusters "
                "above 1 the clients train several models: set history.every = 0"
            )
        return self


HorizontalConfig: TypeAlias = ConfigFile[HorizontalAgreement, PartySettingsBase]


@cache
def horizontal_agreement(unlearning: type[ClientUnlearning]) -> type[HorizontalAgreement]:
    """Build the class of an agreement whose table [unlearning] is of the class ``unlearning``."""
    return create_model(
        "HorizontalAgreement",
        __base__=HorizontalAgreement,
        __doc__=HorizontalAgreement.__doc__,
        unlearning=(unlearning, unlearning.model_validate({})),
    )
