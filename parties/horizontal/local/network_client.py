"""A client that trains a network on its rows: local tasks, evaluation and personal parameters."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from models.gpfl import GpflNetwork
from models.prompts import PromptedNetwork
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed
from parties.horizontal.local.client_task import ClientTask
from parties.horizontal.local.data_free import (
    DistillationObjective,
    DistillationRounds,
    GatedTransfer,
    MimirDistillation,
    train_student,
)
from parties.horizontal.local.fisher import diagonal_fisher, layer_inputs
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalTaskError,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.local_training import ClientNetwork, train_locally
from parties.horizontal.local.personalisation import (
    Personalisation,
    initial_personal,
    pack_personal,
    unpack_personal,
)
from parties.horizontal.local.rows import ClientData, RowKind, Rows, matched_rows
from parties.horizontal.local.score_histogram import score_histogram
from unlearning.audit.forgetting import label_log_odds
from unlearning.horizontal.error_noise import error_maximising_noise, error_minimising_noise

EVALUATION_BATCH = 1024  # rows whose outputs are computed at a time

# (client's data, name of a request) -> indices of the training rows that the request names; None if
# there is no such request.
RowSelector = Callable[[ClientData, str], Index | None]


def no_request(_client_data: ClientData, _request: str) -> None:
    """Return None, which means that no unlearning request has this name."""


@dataclass(slots=True)
class NetworkClientTask(ClientTask):
    """A client that trains a network on its rows."""

    name: str  # name of the client
    network: nn.Module  # the network into which each model is loaded before training or evaluation
    client_data: ClientData  # the client's rows
    seed: int  # seed of the agreement
    # Which parameters are personal.
    personalisation: Personalisation = field(default_factory=Personalisation)
    # The personal parameters of the current branch, ``[d]``; None before the first local task.
    personal: Tensor | None = None
    # The personal parameters of each branch, by the branch's name.
    branches: dict[str, Tensor | None] = field(default_factory=dict)
    branch: str = "original"  # name of the current branch
    # Function that returns the indices of the training rows that a request names.
    select_rows: RowSelector = no_request

    @property
    def size(self) -> int:
        """d, the number of elements of a model's vector."""
        return sum(each.numel() for each in self.network.parameters())

    @property
    def has_rows(self) -> bool:
        """Whether any training rows are left."""
        return bool(len(self.client_data.train))

    def pack_personal(self, vector: Tensor) -> Tensor:
        """Return only the personal parameters, ``[personal]``, of a parameter vector, ``[d]``."""
        return pack_personal(self.network, self.personalisation, vector)

    def unpack_personal(self, packed: Tensor) -> Tensor:
        """Return a vector, ``[d]``, with the personal parameters in place and 0 elsewhere.

        ``packed`` are the personal parameters, ``[personal]``.
        """
        return unpack_personal(self.network, self.personalisation, packed)

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return the client's personalised model as tensors by name; ``model`` is ``[d]``.

        The tensors have any shape.
        """
        self.load_personalised(model)
        return dict(self.network.state_dict())

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch to the personal parameters of ``branch``; a new one starts as ``parent``."""
        self.branches[self.branch] = self.personal
        if branch not in self.branches:
            self.branches[branch] = self.branches.get(parent) if parent else None
        self.branch, self.personal = branch, self.branches[branch]

    def evaluate(
        self, kind: RowKind, model: Tensor, parameters: ParameterSource = "personal"
    ) -> RowMetrics:
        """Return the metrics of a model, ``[d]``, on the client's rows of one kind.

        If ``parameters`` is "personal", the model is personalised first. If ``parameters`` is
        "sent", the model is evaluated without personalisation.
        """
        rows = self._evaluated_rows(kind)
        if not len(rows):
            return RowMetrics(0, 0, 0.0)
        if parameters == "personal":
            self.load_personalised(model)
        else:
            ClientNetwork(self.network).load(model)
        with torch.no_grad():
            parts = torch.split(rows.inputs, EVALUATION_BATCH)
            logits = torch.cat([self.network(part) for part in parts])
        correct = int((logits.argmax(dim=1) == rows.labels).sum())
        loss = float(cross_entropy(logits, rows.labels, reduction="sum"))
        histogram = score_histogram(label_log_odds(logits, rows.labels))
        return RowMetrics(len(rows), correct, loss, histogram)

    def run_task(self, kind: RowKind, task: LocalTask, slots: Slots) -> LocalUpdate:
        """Carry out a local task on rows of one kind; ``slots`` are vectors by name, ``[d]``.

        Raises:
            LocalTaskError: the client has no rows of this kind, or the network does not support the
                task.
        """
        rows = self.client_data.for_training(kind)
        if not len(rows):
            raise LocalTaskError(
                f"{self.name} has no {kind} rows; a local task needs at least one row"
            )
        own_task = replace(task, stream=f"{task.stream} {self.name} {kind}")
        client_network = self._client_network(self.network)
        if isinstance(self.network, GpflNetwork):
            self.network.set_label_frequencies(rows.labels)
        match task.aim:
            case "fisher" | "inputs" | "personal-model" | "classes":
                report = self._report(client_network, rows, own_task, slots)
                return LocalUpdate(report, len(rows), 0.0, 0)
            case "distil" | "gated":
                return self._distil(client_network, own_task, slots, len(rows))
            case "error-maximising-noise" | "error-minimising-noise":
                return self._train_on_noise(client_network, rows, own_task, slots)
            case _:
                found = train_locally(client_network, rows, own_task, slots, self.seed)
                self.personal = found.personal
                return found

    def load_personalised(self, model: Tensor) -> None:
        """Load a model, ``[d]``, into the network and personalise it.

        The client's personal parameters replace those of the model. With Per-FedAvg the network
        then takes one gradient step on the retained rows.
        """
        rows = self.client_data.of_kind("retained")
        if isinstance(self.network, GpflNetwork):
            self.network.set_label_frequencies(rows.labels)
        self._client_network(self.network).load(model)
        if self.personalisation.inner is not None and len(rows):
            block = list(self.network.parameters())
            loss = cross_entropy(self.network(rows.inputs), rows.labels)
            with torch.no_grad():
                for each, gradient in zip(block, torch.autograd.grad(loss, block), strict=True):
                    each.sub_(self.personalisation.inner * gradient)

    @property
    def _data(self) -> ClientData:
        return self.client_data

    def _named_rows(self, request: str) -> Index | None:
        return self.select_rows(self.client_data, request)

    def _evaluated_rows(self, kind: RowKind) -> Rows:
        data = self.client_data
        if kind not in ("members", "non_members"):
            return data.of_kind(kind)
        secret = derive_key(self.seed, "membership", self.name)
        members, others = matched_rows(data.forgotten_without_trigger(), data.test, secret)
        return members if kind == "members" else others

    def _client_network(self, network: nn.Module) -> ClientNetwork:
        """A network with the client's personal parameters, sampled before the first task."""
        personal, plan = self.personal, self.personalisation
        if personal is None:
            personal = initial_personal(network, plan, torch_seed(self.seed, "own", self.name))
        return ClientNetwork(network, plan, personal)

    def _report(
        self, client_network: ClientNetwork, rows: Rows, task: LocalTask, slots: Slots
    ) -> Tensor:
        """The report of a task that trains nothing."""
        client_network.load(slots["model"])
        match task.aim:
            case "fisher":
                return diagonal_fisher(self.network, rows)
            case "inputs":
                return self._layer_inputs(rows, task)
            case "personal-model":
                return parameters_to_vector(self.network.parameters()).detach() - slots["model"]
            case _:
                with torch.no_grad():
                    classes = self.network(rows.inputs[:1]).shape[1]
                return (torch.bincount(rows.labels, minlength=classes) > 0).float()

    def _distil(
        self, client_network: ClientNetwork, task: LocalTask, slots: Slots, rows: int
    ) -> LocalUpdate:
        """Train the client's network as the student of Mimir or GKT; no row is read."""
        student = self.network
        teacher = deepcopy(student)
        self._client_network(teacher).load(slots["teacher"])
        client_network.load(slots["model"])
        before = parameters_to_vector(student.parameters()).detach().clone()
        plan = DistillationRounds(
            rounds=task.epochs, batch=task.batch, learning_rate=task.learning_rate
        )
        seed, shape = torch_seed(self.seed, task.stream), self.client_data.train.inputs.shape[1:]
        loss = train_student(self._objective(task, teacher, slots), shape, plan, seed)
        now = parameters_to_vector(student.parameters()).detach()
        return LocalUpdate(now - before, rows, loss, task.epochs, self.personal)

    def _objective(
        self, task: LocalTask, teacher: nn.Module, slots: Slots
    ) -> DistillationObjective:
        """The objective of a distillation whose student is the client's network."""
        student, leaving = self.network, None
        if "second" in slots and isinstance(student, PromptedNetwork):
            leaving = deepcopy(student)
            ClientNetwork(leaving).load(slots["second"])
        if task.distil is not None and isinstance(student, PromptedNetwork):
            if isinstance(teacher, PromptedNetwork) and leaving is not None:
                return MimirDistillation(student, teacher, leaving, task.distil)
        elif task.gate is not None and (leaving is not None or task.gate.classes):
            fixed = (*self.personalisation.prefixes, *self.personalisation.last)
            trained = [e for n, e in student.named_parameters() if not n.startswith(fixed)]
            return GatedTransfer(student, teacher, leaving, trained, task.gate)
        raise LocalTaskError(
            f"the client cannot carry out a local task with the aim {task.aim!r}: the network "
            "has no prompts, or the server sent neither the leaving client's model nor the "
            "forgotten classes"
        )

    def _train_on_noise(
        self, client_network: ClientNetwork, rows: Rows, task: LocalTask, slots: Slots
    ) -> LocalUpdate:
        """Train on noise with the classes of the rows (FedMM).

        The client's personal parameters do not change.
        """
        plan = task.noise
        if plan is None:
            raise LocalTaskError(
                f"a local task with the aim {task.aim!r} needs the settings of the noise, but the "
                "server did not send them"
            )
        classes = torch.bincount(rows.labels).nonzero().flatten()
        labels = classes.repeat_interleave(plan.rows)
        random = torch.Generator().manual_seed(torch_seed(self.seed, "noise", task.stream))
        start = torch.randn(len(labels), *rows.inputs.shape[1:], generator=random)
        maximising = task.aim == "error-maximising-noise"
        make_noise = error_maximising_noise if maximising else error_minimising_noise
        client_network.load(slots["teacher"])
        noise = Rows(make_noise(self.network, start, labels, plan), labels)
        found = train_locally(client_network, noise, task, {"model": slots["model"]}, self.seed)
        return replace(found, rows=len(rows), personal=self.personal)

    def _layer_inputs(self, rows: Rows, task: LocalTask) -> Tensor:
        """The inputs of all layers for one batch, ``[inputs · sum of widths]``, flat."""
        secret = derive_key(self.seed, "inputs", task.stream)
        chosen = rows.take(permutation(secret, len(rows))[: task.batch].copy())
        generator = torch.Generator().manual_seed(int.from_bytes(secret[:7], "big"))
        parts = []
        for each in layer_inputs(self.network, chosen):
            # A convolution has more columns than the batch has rows; equally many of each layer
            # are reported.
            places = torch.randperm(each.shape[1], generator=generator)[: len(chosen)]
            parts.append(each[:, places].T)
        return torch.cat(parts, dim=1).flatten()
