"""Agreement of a run with a server: the keys common to the horizontal mode and the LLM mode."""

from math import ceil
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from configs.agreement import LimitSettings
from configs.requests import FederatedRequestSettings
from configs.table import ConfigTable, Count, Fraction, Name, Pin, Positive

SIMULATED = "client"  # the table [settings.client] is for all simulated clients


class FederatedPartyEntry(ConfigTable):
    """One party and its role."""

    role: Literal["server", "client"]
    pins: tuple[Pin, ...] = ()


class ServerRule(ConfigTable):
    """Rule by which the server applies the mean of the clients' updates to the model."""

    # Update rule of the server.
    kind: Literal["fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"] = "fedavg"
    # Learning rate η_s of the server; absent: 1, or 0.001 for the adaptive kinds.
    rate: Positive | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9  # momentum of fedavgm
    tau: Positive = 1e-3  # constant τ in the denominator of the adaptive kinds
    # Decay β₁ of the mean update, for fedadam and fedyogi.
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    # Decay β₂ of the mean squared update, for fedadam and fedyogi.
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    # Form of the adaptive kinds. paper: as in Oblivionis (arXiv 2508.08875). reddi: as in Reddi et
    # al. code: as in the code released with Oblivionis.
    form: Literal["paper", "reddi", "code"] = "paper"


class RoundSettings(ConfigTable):
    """Settings of the rounds of federated averaging."""

    rounds: Count = 100
    share: Fraction = 1.0  # fraction of the clients that take part in a round
    # Fraction of a round's clients that must reply. With fewer replies, the server waits
    # limits.rejoin_seconds for lost clients; then the run stops.
    quorum: Fraction = 0.8
    epochs: Count = 1  # local epochs of a client in a round
    batch: Count = 64
    learning_rate: Positive = 0.05
    decay: Fraction = 1.0  # factor that multiplies the learning rate after each round
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    proximal: Annotated[float, Field(ge=0)] = 0.0  # weight μ of the proximal term of FedProx
    rule: ServerRule = ServerRule()


class RequestBase(ConfigTable):
    """A deletion request: the keys that the horizontal and the LLM mode share."""

    # Whether the client names its rows in a list that no other party sees: after the run only.
    has_list: ClassVar[bool] = False

    name: Name
    client: Name | None = None  # client whose rows are forgotten; absent: all clients
    fraction: Fraction = 1.0  # fraction of the chosen rows that are forgotten
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # seed for sampling the fraction

    @property
    def leaver(self) -> str | None:
        """Name of the client whose rows are all forgotten; None if there is no such client."""
        return self.client if self.fraction == 1 else None


class SecureAggregation(ConfigTable):
    """Secure aggregation: the server sees only sums of the clients' updates."""

    # none: the server sees every update. masks: updates are masked. ckks: updates are encrypted.
    kind: Literal["none", "masks", "ckks"] = "none"
    # Smallest number of clients in a sum; with fewer contributors no sum is computed.
    min_contributors: Annotated[int, Field(ge=3)] = 3
    key_holders: tuple[Name, ...] = ()  # clients that may hold the keys of ckks; empty: all


class SimulationSettings(ConfigTable):
    """How simulated clients are executed."""

    added_later: ClassVar[frozenset[str]] = frozenset({"num_gpus"})

    backend: Literal["processes", "ray"] = "processes"  # local processes, or Ray workers
    workers: Count | None = None  # number of processes; absent: one per core
    address: str | None = None  # address of a Ray cluster; absent: one on this machine
    # GPUs per client in training, for example 0.25 for four clients on one GPU; only with ray.
    num_gpus: Positive | None = None

    @model_validator(mode="after")
    def _gpus_are_of_ray(self) -> Self:
        if self.num_gpus is None:
            return self
        if self.backend != "ray":
            raise ValueError("the key 'num_gpus' is legal only with backend = 'ray'")
        if self.num_gpus > 1 and self.num_gpus % 1:
            raise ValueError(
                f"num_gpus must be at most 1 or a whole number (got {self.num_gpus:g}), because a "
                "client can share one GPU but not several"
            )
        return self

    @model_validator(mode="after")
    def _address_is_of_a_cluster(self) -> Self:
        if self.address is not None and (self.backend != "ray" or self.workers is not None):
            raise ValueError(
                "the key 'address' is legal only with backend = 'ray' and without the key "
                "'workers', because the Ray cluster determines the number of workers"
            )
        return self


class FederatedAgreement(ConfigTable):
    """Agreement of a run with a server; each mode adds keys for model, data and methods."""

    added_later: ClassVar[frozenset[str]] = frozenset({"requests"})

    federation: Name
    mode: str
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    parties: dict[Name, FederatedPartyEntry] = Field(default={})
    # Number of simulated clients besides the named parties; their names are client-0, client-1,
    # ..., and their settings are [settings.client].
    clients: Annotated[int, Field(ge=0, le=100_000)] = 0
    training: RoundSettings = RoundSettings()
    aggregation: SecureAggregation = SecureAggregation()
    unlearn: tuple[RequestBase, ...] = ()
    requests: FederatedRequestSettings = FederatedRequestSettings()
    limits: LimitSettings = LimitSettings()
    simulation: SimulationSettings = SimulationSettings()

    @property
    def variants(self) -> frozenset[str]:
        """The names of methods that also run with other settings; none by default."""
        return frozenset()

    def listed_request(self, name: str, client: str) -> RequestBase:
        """Return a request, raised after the training, whose rows only the client knows.

        Args:
            name: its name, which is part of the names of random streams.
            client: the client.

        Raises:
            NotImplementedError: always, in this base class.
        """
        raise NotImplementedError

    def request(
        self, name: str, client: str | None, classes: tuple[str, ...], fraction: float, seed: int
    ) -> RequestBase:
        """Return a request of this mode that was raised after the training.

        Args:
            name: its name, which is part of the names of random streams.
            client: the client whose rows are forgotten; None: all clients.
            classes: classes of the rows; empty: all classes.
            fraction: fraction of these rows that is forgotten.
            seed: seed for sampling the fraction.

        Raises:
            NotImplementedError: always, in this base class.
        """
        raise NotImplementedError

    @property
    def architecture(self) -> dict[str, Any]:
        """Settings, as JSON, that a run must share with every saved model that the run loads.

        Raises:
            NotImplementedError: always, in this base class.
        """
        raise NotImplementedError

    @property
    def hub(self) -> str:
        """Name of the party to which all others connect: the server."""
        return next(name for name, each in self.parties.items() if each.role == "server")

    @property
    def spokes(self) -> tuple[str, ...]:
        """Names of the clients: the named ones, sorted, then the simulated ones."""
        named = (name for name, each in self.parties.items() if each.role == "client")
        return (*sorted(named), *(f"{SIMULATED}-{number}" for number in range(self.clients)))

    @model_validator(mode="after")
    def _has_one_server(self) -> Self:
        servers = [name for name, each in self.parties.items() if each.role == "server"]
        if len(servers) != 1 or len(self.spokes) < 2:
            raise ValueError(
                f"a run needs exactly one server and at least two clients (got {len(servers)} "
                f"servers and {len(self.spokes)} clients)"
            )
        if len(set(self.spokes)) < len(self.spokes):
            raise ValueError(
                "a client in [parties] has the name of a simulated client (client-NUMBER): "
                "rename the client"
            )
        return self

    @model_validator(mode="after")
    def _kept_models_have_processes(self) -> Self:
        if self.requests.keep == "model" and self.clients:
            raise ValueError(
                "requests.keep = 'model' needs clients that keep their part of the model, but "
                f"{self.clients} clients are simulated: set requests.keep = 'nothing'"
            )
        return self

    @model_validator(mode="after")
    def _full_audits_have_retrains(self) -> Self:
        requests, plan = self.requests, getattr(self, "unlearning", None)
        if plan is None or requests.keep != "model" or requests.audit != "full":
            return self
        if plan.retrains < 2:
            raise ValueError(
                "requests.audit = 'full' compares with the spread of several Retrains, but "
                f"unlearning.retrains is {plan.retrains}: set unlearning.retrains to 2 or more (3 "
                "for a limit), or requests.audit = 'quick'"
            )
        return self

    @model_validator(mode="after")
    def _requests_name_clients(self) -> Self:
        names = [each.name for each in self.unlearn]
        if len(set(names)) < len(names):
            raise ValueError("two requests have the same name: rename one of them")
        for each in self.unlearn:
            if each.client is not None and each.client not in self.spokes:
                raise ValueError(
                    f"request {each.name!r} names client {each.client!r}, which does not exist: "
                    "name a client of the agreement"
                )
        if {each.leaver for each in self.unlearn} >= {*self.spokes}:
            raise ValueError(
                "the requests remove every client: name fewer clients, or set 'fraction' below 1"
            )
        return self

    @model_validator(mode="after")
    def _sums_have_enough_contributors(self) -> Self:
        sums, gone = self.aggregation, {each.leaver for each in self.unlearn} - {None}
        stay = len(self.spokes) - len(gone)
        chosen = ceil(self.training.share * stay - 1e-9)
        if sums.kind != "none" and chosen < sums.min_contributors:
            raise ValueError(
                f"aggregation.min_contributors is {sums.min_contributors}, but only {chosen} of "
                f"the {stay} remaining clients take part in a round: increase training.share, or "
                "add clients"
            )
        return self

    @model_validator(mode="after")
    def _key_holders_are_clients(self) -> Self:
        named, sums = self.aggregation.key_holders, self.aggregation
        if not named:
            return self
        if sums.kind != "ckks":
            raise ValueError(
                "aggregation.key_holders needs aggregation.kind = 'ckks': set this kind, or "
                "remove key_holders"
            )
        if len(set(named)) < 2 or not {*named} <= {*self.spokes}:
            raise ValueError(
                "aggregation.key_holders must name at least two clients, and each name must be a "
                f"client of the agreement (got {', '.join(named)})"
            )
        gone = {each.leaver for each in self.unlearn}
        if len({*named} - gone) < 2:
            raise ValueError(
                "after the requests, fewer than two clients of aggregation.key_holders remain: add "
                "clients that no request removes to aggregation.key_holders"
            )
        # In the worst round the leaving key holders are gone and all other clients are there.
        here = len(self.spokes) - len({*named} & gone)
        left_out = here - ceil(self.training.share * here - 1e-9)
        if len({*named} - gone) - left_out < 2:
            raise ValueError(
                "with training.share below 1 a round may have fewer than two clients of "
                "aggregation.key_holders: set training.share = 1, or name more key "
                "holders, or remove the key 'key_holders' (all clients are then key holders)"
            )
        return self
