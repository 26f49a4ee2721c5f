"""What every agreement between a server and its clients has, whatever they teach."""

from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from configs.agreement import Limits
from configs.table import Count, Fraction, Name, Pin, Positive, Table


class Seated(Table):
    """One organisation and its role."""

    role: Literal["server", "client"]
    pins: tuple[Pin, ...] = ()


class Rule(Table):
    """What the server does with the clients' mean change."""

    kind: Literal["fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"] = "fedavg"
    rate: Positive | None = None  # η_s; None: 1, or 0.001 of the adaptive ones
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9  # of fedavgm
    floor: Positive = 1e-3  # τ
    first: Annotated[float, Field(ge=0, lt=1)] = 0.9  # β₁
    second: Annotated[float, Field(ge=0, lt=1)] = 0.99  # β₂
    form: Literal["paper", "reddi", "code"] = "paper"


class Teaching(Table):
    """Rounds of federated averaging."""

    rounds: Count = 100
    share: Fraction = 1.0  # of the clients that take part in a round
    quorum: Fraction = 0.8  # of these that must answer, or the round stops the run
    epochs: Count = 1  # of a client in a round
    batch: Count = 64
    learning_rate: Positive = 0.05
    decay: Fraction = 1.0  # of the learning rate, a round
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    proximal: Annotated[float, Field(ge=0)] = 0.0  # μ of FedProx
    rule: Rule = Rule()


class Asked(Table):
    """What every request to forget has."""

    name: Name
    client: Name | None = None  # None: every client, as far as its rows are meant
    fraction: Fraction = 1.0  # of the rows that are meant
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @property
    def leaver(self) -> str | None:
        """The client that leaves with all its rows, where one does."""
        return self.client if self.fraction == 1 else None


class SecureAggregation(Table):
    """Whether the server sees single updates."""

    kind: Literal["none", "masks", "ckks"] = "none"
    least: Annotated[int, Field(ge=3)] = 3  # contributors of a sum, or it is not made
    keepers: tuple[Name, ...] = ()  # clients that may hold the keys of ckks; none named: all


class Simulation(Table):
    """Where simulated clients are computed."""

    backend: Literal["processes", "ray"] = "processes"
    workers: Count | None = None  # processes; None: as many as there are cores
    address: str | None = None  # of a Ray cluster; None: one on this machine

    @model_validator(mode="after")
    def _of_a_cluster(self) -> Self:
        if self.address is not None and (self.backend != "ray" or self.workers is not None):
            raise ValueError("address goes with backend 'ray' alone; a cluster has its own workers")
        return self


class Federated(Table):
    """What the agreements of networks on rows and of language models have in common."""

    federation: Name
    mode: str
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    parties: dict[Name, Seated] = Field(default={})
    # So many simulated clients beside those named, client-0 and so on, all with [seats.client].
    clients: Annotated[int, Field(ge=0, le=100_000)] = 0
    training: Teaching = Teaching()
    aggregation: SecureAggregation = SecureAggregation()
    unlearn: tuple[Asked, ...] = ()
    limits: Limits = Limits()
    simulation: Simulation = Simulation()

    @property
    def architecture(self) -> dict[str, Any]:
        """What a trained model must have in common with those who use it, as JSON."""
        raise NotImplementedError

    @property
    def hub(self) -> str:
        """The server."""
        return next(name for name, each in self.parties.items() if each.role == "server")

    @property
    def spokes(self) -> tuple[str, ...]:
        """The clients, by name."""
        named = (name for name, each in self.parties.items() if each.role == "client")
        return (*sorted(named), *(f"client-{number}" for number in range(self.clients)))

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        servers = [name for name, each in self.parties.items() if each.role == "server"]
        if len(servers) != 1 or len(self.spokes) < 2:
            raise ValueError(
                f"a run has one server and two clients or more; here {len(servers)} and "
                f"{len(self.spokes)}"
            )
        if len(set(self.spokes)) < len(self.spokes):
            raise ValueError("a named client bears the name of a simulated one")
        return self

    @model_validator(mode="after")
    def _requests_name_clients(self) -> Self:
        names = [each.name for each in self.unlearn]
        if len(set(names)) < len(names):
            raise ValueError("two requests bear one name")
        for each in self.unlearn:
            if each.client is not None and each.client not in self.spokes:
                raise ValueError(f"request {each.name!r} names client {each.client!r}, who is none")
        if {each.leaver for each in self.unlearn} >= {*self.spokes}:
            raise ValueError("the requests have every client leave: name fewer, or a part of rows")
        return self

    @model_validator(mode="after")
    def _enough_for_a_sum(self) -> Self:
        sums, gone = self.aggregation, {each.leaver for each in self.unlearn} - {None}
        stay = len(self.spokes) - len(gone)
        taught = ceil(self.training.share * stay - 1e-9)
        if sums.kind != "none" and taught < sums.least:
            raise ValueError(
                f"training.share has {taught} of the {stay} clients that stay take part in a "
                f"round, and aggregation.least is {sums.least}"
            )
        return self

    @model_validator(mode="after")
    def _keepers_are_clients(self) -> Self:
        named, sums = self.aggregation.keepers, self.aggregation
        if not named:
            return self
        if sums.kind != "ckks":
            raise ValueError("aggregation.keepers goes with aggregation.kind = 'ckks'")
        if len(set(named)) < 2 or not {*named} <= {*self.spokes}:
            raise ValueError("aggregation.keepers must name two clients or more, and nobody else")
        gone = {each.leaver for each in self.unlearn}
        if len({*named} - gone) < 2:
            raise ValueError("of aggregation.keepers two at least must stay: name others, or more")
        # In the worst round the keepers that leave are gone, and all others are here.
        here = len(self.spokes) - len({*named} & gone)
        left_out = here - ceil(self.training.share * here - 1e-9)
        if len({*named} - gone) - left_out < 2:
            raise ValueError(
                "of aggregation.keepers fewer than two may be in a round whose clients are drawn: "
                "training.share = 1, more keepers, or none named, and all are"
            )
        return self
