"""Local training: train a client's network on the client's rows with the loss of a local task."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.gpfl import GpflNetwork
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.local.local_task import LocalTask, LocalTaskError, LocalUpdate, Slots
from parties.horizontal.local.personalisation import (
    SHARED,
    Personalisation,
    parameter_mask,
    select_parameters,
)
from parties.horizontal.local.rows import Rows
from unlearning.horizontal.fedforget import (
    capped_ascent_loss,
    kl_student_teacher,
    kl_teacher_student,
    second_teacher_loss,
)
from unlearning.horizontal.fedosd import unlearning_cross_entropy

TEACHER_BATCH = 1024  # rows whose teacher predictions are computed at a time


@dataclass(frozen=True, slots=True)
class ClientNetwork:
    """A network and the client's personal parameters."""

    network: nn.Module  # the network into which ``load`` copies each model that the client trains
    personalisation: Personalisation = SHARED  # which parameters are personal
    # A vector, ``[d]``; only its elements for the personal parameters are used. This vector is None
    # before the first local task.
    personal: Tensor | None = None

    def load(self, model: Tensor) -> None:
        """Load a model, ``[d]``, into the network, but keep the client's personal parameters."""
        if self.personal is not None:
            place = parameter_mask(self.network, self.personalisation.prefixes)
            model = torch.where(place, self.personal, model)
        load_vector(self.network, model)


def load_vector(network: nn.Module, vector: Tensor) -> None:
    """Copy a parameter vector, ``[d]``, into the network, and GPFL's conditions with it."""
    vector_to_parameters(vector.clone(), network.parameters())
    if isinstance(network, GpflNetwork):
        network.freeze_embeddings()


def train_locally(
    client_network: ClientNetwork, rows: Rows, task: LocalTask, slots: Slots, seed: int
) -> LocalUpdate:
    """Train the network on ``rows``, starting from the model in ``slots``; return the update.

    Args:
        client_network: the network and the client's personal parameters.
        rows: the rows of the task.
        task: the loss and the optimiser's settings.
        slots: vectors by name, ``[d]`` each: ``model``, and the further vectors that the task's aim
            needs.
        seed: seed of the agreement; the seed determines the order of the rows.

    Raises:
        LocalTaskError: ``rows`` is empty.
    """
    if not len(rows):
        raise LocalTaskError("the client has no rows; a local task needs at least one row")
    network, personalisation = client_network.network, client_network.personalisation
    teachers = {
        name: _predictions(network, slots[name], rows)
        for name in ("teacher", "second")
        if name in slots
    }
    client_network.load(slots["model"])
    before = parameters_to_vector(network.parameters()).detach().clone()
    last = list(select_parameters(network, personalisation.last)) if personalisation.last else []
    first = [each for each in network.parameters() if not any(each is other for other in last)]
    losses = list(_steps(network, first, (rows, teachers), (task, slots, seed), personalisation))
    if last:
        # Mimir (paper 003) Alg 1, lines 14 and 15; the gradient of λ ‖θ‖² is 2 λ θ.
        alone = replace(task, epochs=1, stream=f"{task.stream} last")
        alone = replace(alone, weight_decay=2 * personalisation.decay)
        losses += _steps(network, last, (rows, teachers), (alone, slots, seed), personalisation)
    now = parameters_to_vector(network.parameters()).detach().clone()
    delta, personal = now - before, None
    if personalisation.prefixes:
        delta[parameter_mask(network, personalisation.prefixes)], personal = 0.0, now
    return LocalUpdate(delta, len(rows), sum(losses) / len(losses), len(losses), personal)


def _steps(
    network: nn.Module,
    block: list[nn.Parameter],
    given: tuple[Rows, Slots],
    plan: tuple[LocalTask, Slots, int],
    personalisation: Personalisation,
) -> Iterator[float]:
    """Train the parameters of ``block`` on all batches and yield the loss of each batch."""
    (rows, teachers), (task, slots, seed) = given, plan
    optimiser, count = _optimiser(task, block), 0
    for epoch in range(task.epochs):
        order = permutation(derive_key(seed, "batches", task.stream, epoch), len(rows))
        for batch in torch.split(torch.from_numpy(order), task.batch):
            if count == task.steps:
                return
            here = {name: each[batch] for name, each in teachers.items()}
            part = Rows(rows.inputs[batch], rows.labels[batch])
            loss = _gradient(network, block, part, (task, here, personalisation))
            yield loss
            count += 1
            if task.aim == "ascent" and -loss >= _uniform_loss(network, rows):
                return
            _add_penalty(network, block, task, slots, personalisation)
            if task.clip is not None:
                nn.utils.clip_grad_norm_(block, task.clip)
            optimiser.step()


def _optimiser(task: LocalTask, block: list[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = task.learning_rate, task.weight_decay
    if task.aim in ("error-maximising-noise", "error-minimising-noise"):
        return torch.optim.Adam(block, rate, weight_decay=decay)
    return torch.optim.SGD(block, rate, momentum=task.momentum, weight_decay=decay)


def _gradient(
    network: nn.Module,
    block: list[nn.Parameter],
    part: Rows,
    plan: tuple[LocalTask, Slots, Personalisation],
) -> float:
    """Store the gradient of one batch in ``block`` and return the loss."""
    task, teachers, personalisation = plan
    if personalisation.inner is not None and task.aim == "fit" and len(part) > 1:
        return _meta_gradient(network, block, part, personalisation.inner)
    loss = _loss(task, network, part, teachers)
    gradients = torch.autograd.grad(loss, block, allow_unused=True)
    for each, gradient in zip(block, gradients, strict=True):
        each.grad = torch.zeros_like(each) if gradient is None else gradient
    return loss.item()


def _meta_gradient(
    network: nn.Module, block: list[nn.Parameter], part: Rows, inner: float
) -> float:
    """Store the first-order gradient of Per-FedAvg in ``block`` and return the loss."""
    # Per-FedAvg (Fallah et al. 2020), first order: ∇f(θ − α ∇f(θ; first half); second half).
    middle, kept = len(part) // 2, [each.detach().clone() for each in block]
    first = cross_entropy(network(part.inputs[:middle]), part.labels[:middle])
    with torch.no_grad():
        for each, gradient in zip(block, torch.autograd.grad(first, block), strict=True):
            each.sub_(inner * gradient)
    second = cross_entropy(network(part.inputs[middle:]), part.labels[middle:])
    gradients = torch.autograd.grad(second, block)
    with torch.no_grad():
        for each, gradient, was in zip(block, gradients, kept, strict=True):
            each.copy_(was)
            each.grad = gradient
    return second.item()


def _loss(task: LocalTask, network: nn.Module, part: Rows, teachers: Slots) -> Tensor:
    labels = part.labels
    if task.aim == "fit" and isinstance(network, GpflNetwork):
        return network.objective(part.inputs, labels)
    logits = network(part.inputs)
    match task.aim:
        case "unlearning-loss":
            return unlearning_cross_entropy(logits, labels).mean()
        case "ascent" | "elastic":
            return -cross_entropy(logits, labels)
        case "teachers":
            return _teacher_loss(task, logits, labels, teachers)
        case "pseudo-labels":
            return kl_teacher_student(logits, teachers["teacher"]).mean()
        case _:
            return cross_entropy(logits, labels)


def _teacher_loss(task: LocalTask, logits: Tensor, labels: Tensor, teachers: Slots) -> Tensor:
    """The weighted losses of FedForget at the leaving client, a scalar."""
    first_weight, second_weight = task.teacher_weights
    first = kl_student_teacher(logits, teachers["teacher"], task.temperature)
    if task.teacher_mode == "ga":
        second = capped_ascent_loss(logits, labels)
    else:
        second = second_teacher_loss(
            task.teacher_mode, logits, teachers["second"], task.temperature
        )
    return (first_weight * first + second_weight * second).mean()


@torch.no_grad()
def _add_penalty(
    network: nn.Module,
    block: list[nn.Parameter],
    task: LocalTask,
    slots: Slots,
    personalisation: Personalisation,
) -> None:
    """Add the gradient of FedProx's penalty or of the elastic penalty to the gradient of ``block``.

    Personal parameters have no penalty: the model that the server sent has no values for them.
    """
    if not task.proximal:
        return
    anchor, start = slots.get("anchor", slots["model"]), 0
    personal = (
        {id(each) for each in select_parameters(network, personalisation.prefixes)}
        if personalisation.prefixes
        else set[int]()
    )
    fisher, trained = slots.get("fisher"), {id(each) for each in block} - personal
    for each in network.parameters():
        end = start + each.numel()
        if id(each) in trained and each.grad is not None:
            # FedProx (Li et al. 2020): μ (θ − θ_anchor); elastic (EWC): λ F (θ − θ_anchor).
            away = each - anchor[start:end].view_as(each)
            if fisher is not None:
                away = away * fisher[start:end].view_as(each)
            each.grad.add_(away, alpha=task.proximal)
        start = end


@torch.no_grad()
def _predictions(network: nn.Module, vector: Tensor, rows: Rows) -> Tensor:
    load_vector(network, vector)
    return torch.cat([network(part) for part in torch.split(rows.inputs, TEACHER_BATCH)])


def _uniform_loss(network: nn.Module, rows: Rows) -> float:
    """The cross entropy of a uniform guess, log C."""
    with torch.no_grad():
        return float(torch.tensor(float(network(rows.inputs[:1]).shape[1])).log())
