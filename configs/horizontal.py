"""The agreement of a horizontal run: a server, and clients with the same columns, other people."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.agreement import Labels, Split, Widths
from configs.client_unlearning import ClientMethod, ClientUnlearning
from configs.federated import Asked, Federated, Teaching
from configs.hidden_updates import refused, told_classes
from configs.table import Count, Fraction, Name, Positive, Table

Shape: TypeAlias = Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)]


class WholeMlp(Table):
    """Fully connected layers with ReLU between; no hidden layer makes it linear."""

    kind: Literal["mlp"] = "mlp"
    hidden: Widths = (400, 400)


class WholeNetwork(Table):
    """A network of the literature for images."""

    kind: Literal["lenet5", "cnn", "resnet18"]


Network: TypeAlias = Annotated[WholeMlp | WholeNetwork, Field(discriminator="kind")]


class OneForAll(Table):
    """All clients share one model."""

    kind: Literal["none"] = "none"


class FedPer(Table):
    """The last layer is each client's own."""

    kind: Literal["fedper"]


class PerFedAvg(Table):
    """A model that one step makes the client's own (first order)."""

    kind: Literal["per-fedavg"]
    inner: Positive = 0.01  # α


class MimirPrompts(Table):
    """A prompt for every client, generated from its own descriptor."""

    kind: Literal["mimir"]
    decay: Annotated[float, Field(ge=0)] = 0.1  # λ₁ and λ₂
    keys: Count = 8  # l_k
    values: Count = 8  # l_v
    spread: Positive = 1.0  # standard deviation of what each client draws for its descriptor


class Gpfl(Table):
    """Features split by a conditional valve; heads are the clients' own."""

    kind: Literal["gpfl"]
    weight: Annotated[float, Field(ge=0)] = 0.01  # of the distance to the class embeddings


PersonalPlan: TypeAlias = Annotated[
    OneForAll | FedPer | PerFedAvg | MimirPrompts | Gpfl, Field(discriminator="kind")
]


class Own(Table):
    """Every client brings its own data."""

    kind: Literal["own"] = "own"


class Iid(Table):
    """One data set, dealt in equal parts at random."""

    kind: Literal["iid"]


class Pathological(Table):
    """Every client holds a part of the classes: Pat-10, Pat-20, Pat-50."""

    kind: Literal["pathological"]
    share: Fraction = 0.2  # of the classes


class Dirichlet(Table):
    """Each class dealt in proportions drawn from a Dirichlet distribution."""

    kind: Literal["dirichlet"]
    concentration: Positive = 0.1  # ζ
    least: Count = 20  # rows of every client


Partition: TypeAlias = Annotated[Own | Iid | Pathological | Dirichlet, Field(discriminator="kind")]


class Rounds(Teaching):
    """Federated averaging by gradient descent."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clusters: Count = (
        1  # of clients that learn apart, with the method 'knot'; their mean is delivered
    )


class Trigger(Table):
    """A backdoor that the leaving client plants in its own rows, to measure whether it goes."""

    pattern: Literal["square", "random", "cross"] = "random"  # 3x3 pixels at the bottom right
    share: Fraction = 0.8  # of its rows
    shift: Count = 5  # a row of class y learns y + shift, modulo the number of classes
    target: str | None = None  # or every one this class
    # While the client is unlearned all its rows bear it, as in FedOSD's program: otherwise the rows
    # without it are forgotten, too, and the others, which may not go back to their class, to a
    # planted one.
    everywhere: bool = False


class Leaving(Asked):
    """Who or what must be forgotten."""

    classes: tuple[str, ...] = ()  # of the client's rows; none: all
    trigger: Trigger | None = None

    @property
    def leaver(self) -> str | None:
        """See ``Asked``."""
        return None if self.classes else super().leaver

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.client is None and not self.classes:
            raise ValueError("name the client that leaves, or the classes that must be forgotten")
        if self.trigger and (self.client is None or self.classes or self.fraction != 1):
            raise ValueError("a trigger goes with a client that leaves with all its rows")
        return self


class History(Table):
    """What the server keeps of the training for ways that need it: every so many rounds."""

    every: Annotated[int, Field(ge=0)] = 0  # 0: nothing


class ClientEvaluation(Table):
    """What is measured beside accuracy, the trigger and membership."""

    # Reverting test: so many further plain rounds of those who stay, then everything once more.
    revert: Annotated[int, Field(ge=0, le=100_000)] = 0
    # Have those who stay say in every round of unlearning whether its step goes against them.
    conflicts: bool = False
    # A client that stays and lends its whole model, its own parameters included, to be measured on
    # the leaving clients' rows, too.
    by: Name | None = None


class ClientSplit(Split):
    """Which of a client's rows are for what."""

    validation: Fraction = 0.05
    test: Fraction | None = 0.15


class Horizontal(Federated):
    """One run, as all parties must describe it."""

    mode: Literal["horizontal"]
    labels: Labels
    shape: Shape  # of one row: columns, or channels, height and width
    model: Network = WholeMlp()
    personal: PersonalPlan = OneForAll()
    partition: Partition = Own()
    split: ClientSplit = ClientSplit()
    training: Rounds = Rounds()
    history: History = History()
    unlearn: tuple[Leaving, ...] = ()
    unlearning: ClientUnlearning = ClientUnlearning()
    evaluation: ClientEvaluation = ClientEvaluation()

    @property
    def architecture(self) -> dict[str, Any]:
        """What a trained model must have in common with those who use it, as JSON."""
        fields = {"federation", "labels", "shape", "model", "personal"}
        return self.model_dump(mode="json", include=fields)

    @model_validator(mode="after")
    def _requests_name_classes(self) -> Self:
        for each in self.unlearn:
            target = each.trigger.target if each.trigger else None
            for unknown in {*each.classes, *filter(None, [target])} - set(self.labels.classes):
                raise ValueError(
                    f"request {each.name!r} names class {unknown!r}; the classes are "
                    f"{', '.join(self.labels.classes)}"
                )
        planted = [each.name for each in self.unlearn if each.trigger]
        if len(planted) > 1:
            raise ValueError(
                f"requests {', '.join(planted)} plant triggers, and a run measures one of them"
            )
        for each in self.unlearn:
            plan, count = each.trigger, len(self.labels.classes)
            if plan and plan.target is None and not plan.shift % count:
                raise ValueError(
                    f"trigger.shift {plan.shift} of {count} classes leaves every row its class: no "
                    "trigger"
                )
        if planted and len(self.shape) != 3:
            raise ValueError(f"request {planted[0]!r} plants a trigger, which takes images")
        return self

    @model_validator(mode="after")
    def _sums_are_enough(self) -> Self:
        sums, plan = self.aggregation, self.unlearning
        if sums.kind == "none":
            return self
        if self.history.every:
            raise ValueError(
                "history.every keeps single clients' updates, which aggregation.kind = "
                f"{sums.kind!r} hides; set it to 0"
            )
        if self.evaluation.conflicts:
            raise ValueError("evaluation.conflicts asks clients one by one, which sums hide")
        chosen: list[tuple[str, ClientMethod]] = [("unlearning.method", plan.method)]
        chosen += [("unlearning.compare", each) for each in plan.compare]
        chosen += [("unlearning.also", each.method) for each in plan.also]
        if not self.unlearn:  # nothing is run that was not asked for
            chosen = [each for each in chosen if each[0].split(".")[1] in plan.model_fields_set]
        alone = any(each.client is not None for each in self.unlearn)
        hidden = refused(sums.kind, chosen, one_leaves=alone)
        for problem in (*hidden, *told_classes(sums.kind, plan)):
            raise ValueError(problem)
        return self

    @property
    def _ways(self) -> set[str]:
        """What a request has run; nothing without one."""
        plan = self.unlearning
        ways: set[str] = {plan.method, *plan.compare, *(each.method for each in plan.also)}
        return ways if self.unlearn else set()

    @model_validator(mode="after")
    def _histories_tell_steps(self) -> Self:
        rule = self.training.rule
        for name in sorted(self._ways & {"federaser", "fedrecovery"}):
            if not self.history.every:
                raise ValueError(f"{name} needs the history of the training: history.every = 1")
            if rule.kind != "fedavg" or rule.rate not in (None, 1.0):
                raise ValueError(
                    f"{name} takes the mean change for the step that was made: "
                    "training.rule = {kind = 'fedavg'}, rate 1"
                )
        if "fedrecovery" in self._ways and any(each.leaver is None for each in self.unlearn):
            raise ValueError("fedrecovery takes out whole clients: name them, without classes")
        return self

    @model_validator(mode="after")
    def _models_fit_the_ways(self) -> Self:
        if self.personal.kind in ("fedper", "mimir", "gpfl"):
            for name in sorted(self._ways & {"fedforget", "mode"}):
                raise ValueError(
                    f"{name} guides one model by another one, and personal = "
                    f"{self.personal.kind!r} leaves clients one set of own parameters for both"
                )
        if len(self.shape) != 3 or any(side % 4 for side in self.shape[1:]):
            for name in sorted(self._ways & {"mimir", "fedgkt"}):
                raise ValueError(
                    f"{name} draws images with sides of multiples of four, and shape is "
                    f"{list(self.shape)}"
                )
        return self

    @model_validator(mode="after")
    def _ways_have_what_they_need(self) -> Self:
        plan, ways = self.unlearning, self._ways
        if self.personal.kind == "mimir" or not ways:
            return self
        prompts = 'personal = {kind = "mimir"}'
        if "mimir" in ways:
            raise ValueError(f"mimir forgets prompted networks: {prompts}")
        gates = [plan.at(each) for each in plan.also if each.method == "fedgkt"]
        gates += [plan] if "fedgkt" in (plan.method, *plan.compare) else []
        if any(each.fedgkt.by == "features" for each in gates):
            raise ValueError(
                f"fedgkt's gate goes by features of prompted networks: {prompts}, or "
                'unlearning.fedgkt.by = "classes"'
            )
        return self

    @model_validator(mode="after")
    def _who_stays_is_named(self) -> Self:
        by, gone = self.evaluation.by, {each.client for each in self.unlearn}
        for place, name in (("evaluation.by", by), ("unlearning.peer", self.unlearning.peer)):
            if name is None:
                continue
            if name not in self.spokes or gone & {name, None}:
                raise ValueError(f"{place} must name a client that stays, and {name!r} does not")
            if self.aggregation.kind != "none":
                raise ValueError(f"{place} is about one client, which sums hide: aggregation none")
        ways = self._ways
        if self.unlearning.peer and ways and not ways & {"mimir", "fedmm", "fedgkt"}:
            raise ValueError("unlearning.peer is for mimir, fedmm and fedgkt, and none is run")
        if by is not None and self.personal.kind in ("per-fedavg", "gpfl"):
            raise ValueError("evaluation.by lends parameters, and these clients' models need rows")
        return self

    def _clusters_are_hidden(self) -> None:
        """Their rounds are sums of enough clients, and are repeated with all of them."""
        fewest, least = len(self.spokes) // self.training.clusters, self.aggregation.least
        if fewest < least:
            raise ValueError(
                f"rounds of a cluster have {fewest} clients, and aggregation.least is {least}: "
                "fewer clusters, or more clients"
            )
        if self.training.share < 1:
            raise ValueError(
                "knot repeats rounds from the first with a client that leaves, and where clients "
                "are drawn that is a sum without one: training.share = 1"
            )

    @model_validator(mode="after")
    def _clusters_can_go_back(self) -> Self:
        plan, count = self.training, self.training.clusters
        ways = (self.unlearning.method, *self.unlearning.compare)
        if (count > 1) is not ("knot" in ways):
            raise ValueError("training.clusters above 1 and the method 'knot' go together")
        if count == 1:
            return self
        if count > len(self.spokes):
            raise ValueError(f"{count} clusters are too many for {len(self.spokes)} clients")
        if self.aggregation.kind != "none":
            self._clusters_are_hidden()
        if plan.rule.kind != "fedavg":
            raise ValueError("clusters go back to a model, which has no moments: rule 'fedavg'")
        if self.personal.kind not in ("none", "per-fedavg"):
            raise ValueError("clusters go back, and what is a client's own cannot: personal 'none'")
        if self.history.every:
            raise ValueError("the history is of clients that learn together: history.every = 0")
        return self
