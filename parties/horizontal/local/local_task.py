"""A lesson: what a client learns, from which rows, starting at the model that it was sent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.gpfl import GpflNetwork
from parties.common.shared_randomness import Index, key, permutation
from parties.horizontal.local.distillation import Distillation, Gate
from parties.horizontal.local.personal import SHARED, Personal, chosen, mask
from parties.horizontal.local.text_task import TextLesson
from unlearning.horizontal.forgetting_teachers import (
    Mode,
    capped_ascent,
    kl_student_teacher,
    kl_teacher_student,
    second_term,
)
from unlearning.horizontal.noise import Noise
from unlearning.horizontal.unlearning_loss import unlearning_cross_entropy

Aim: TypeAlias = Literal[
    "learn", "unlearn", "climb", "ascend", "teachers", "pseudo-labels",
    "distil", "gated", "worst-noise", "best-noise",
    "fisher", "inputs", "descriptor", "classes", "text",
]  # fmt: skip
Slots = Mapping[str, Tensor]  # vectors that the server sent: model, anchor, fisher, teacher, second


class Unteachable(ValueError):
    """A lesson that this client cannot learn; the server is told why, so no row is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What to do.

    Attributes:
        aim: what is minimised: cross entropy; the unlearning loss; minus cross entropy, until it
            is that of a uniform guess, or without end and elastically held; FedForget's terms; or
            KL(t ‖ s) to the teacher, whose gradient is that of cross entropy with its chances.
            With the second line no row is read: Mimir's losses or GKT's on generated images, or
            cross entropy on noise on which the teacher errs most, or least. With the last nothing
            is learned: what crosses is the diagonal Fisher information, the layers' inputs on one
            batch, the client's own parameters, or which classes it holds, ``[classes]``, 0 or 1;
            or the lesson is about texts, and ``text`` says how.
        stream: names the order of the rows, with the client's name.
        steps: so many and no more; None: all epochs.
        proximal: μ of FedProx, towards the model that was sent; of ``ascend`` the elastic one's.
        clip: the largest norm of a step's gradient; None: any.
    """

    aim: Aim = "learn"
    stream: str
    epochs: int = 1
    batch: int
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    steps: int | None = None
    proximal: float = 0.0
    clip: float | None = None
    mode: Mode = "clean_teacher"  # of ``teachers``
    weights: tuple[float, float] = (1.0, 0.0)  # of the first and the second teacher
    temperature: float = 1.0
    distil: Distillation | None = None
    gate: Gate | None = None
    noise: Noise | None = None
    text: TextLesson | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of it.

    Attributes:
        change: the model now minus the model that was sent, ``[d]``.
        rows: that it was learned from.
        loss: mean over all steps.
        own: all parameters after it, of which some never leave the client; it keeps them.
        tokens: of texts that passed the model.
    """

    change: Tensor
    rows: int
    loss: float
    steps: int
    own: Tensor | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """A client's rows of one kind: features ``[rows, ...]`` and labels ``[rows]``."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Index) -> "Rows":
        """Some of them."""
        places = torch.from_numpy(chosen)
        return Rows(self.inputs[places], self.labels[places])


@dataclass(frozen=True, slots=True)
class Pupil:
    """A network and how it is the client's own.

    Attributes:
        own: the client's own parameters as they are, ``[d]``; None before the first lesson.
    """

    network: nn.Module
    personal: Personal = SHARED
    own: Tensor | None = None

    def take(self, model: Tensor) -> None:
        """Become ``model``, with the client's own parameters in their places."""
        vector = model.clone()
        if self.own is not None:
            place = mask(self.network, self.personal.own)
            vector[place] = self.own[place]
        vector_to_parameters(vector, self.network.parameters())


def learn(pupil: Pupil, rows: Rows, lesson: Lesson, slots: Slots, seed: int) -> Learned:
    """Teach a network, whose parameters are those of the slot ``model`` first.

    Raises:
        Unteachable: there is no row to learn from.
    """
    if not len(rows):
        raise Unteachable("a lesson without rows")
    network, personal = pupil.network, pupil.personal
    teachers = {
        name: _outputs(network, slots[name], rows)
        for name in ("teacher", "second")
        if name in slots
    }
    pupil.take(slots["model"])
    before = parameters_to_vector(network.parameters()).detach().clone()
    last = list(chosen(network, personal.last)) if personal.last else []
    first = [each for each in network.parameters() if not any(each is other for other in last)]
    losses = list(_steps(network, first, (rows, teachers), (lesson, slots, seed), personal))
    if last:
        alone = replace(lesson, epochs=1, stream=f"{lesson.stream} last")
        alone = replace(alone, weight_decay=2 * personal.decay)
        losses += _steps(network, last, (rows, teachers), (alone, slots, seed), personal)
    now = parameters_to_vector(network.parameters()).detach().clone()
    change, own = now - before, None
    if personal.own:
        change[mask(network, personal.own)], own = 0.0, now
    return Learned(change, len(rows), sum(losses) / len(losses), len(losses), own)


def _steps(
    network: nn.Module,
    block: list[nn.Parameter],
    given: tuple[Rows, Slots],
    plan: tuple[Lesson, Slots, int],
    personal: Personal,
) -> Iterator[float]:
    """Descend with ``block`` on all batches; the loss of each."""
    (rows, teachers), (lesson, slots, seed) = given, plan
    descent, count = _descent(lesson, block), 0
    for epoch in range(lesson.epochs):
        order = permutation(key(seed, "batches", lesson.stream, epoch), len(rows))
        for batch in torch.split(torch.from_numpy(order), lesson.batch):
            if count == lesson.steps:
                return
            here = {name: each[batch] for name, each in teachers.items()}
            part = Rows(rows.inputs[batch], rows.labels[batch])
            loss = _gradient(network, block, part, (lesson, here, personal))
            yield loss
            count += 1
            if lesson.aim == "climb" and -loss >= _uniform(network, rows):
                return
            _pull(network, block, lesson, slots, personal)
            if lesson.clip is not None:
                nn.utils.clip_grad_norm_(block, lesson.clip)
            descent.step()


def _descent(lesson: Lesson, block: list[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = lesson.learning_rate, lesson.weight_decay
    if lesson.aim in ("worst-noise", "best-noise"):
        return torch.optim.Adam(block, rate, weight_decay=decay)
    return torch.optim.SGD(block, rate, momentum=lesson.momentum, weight_decay=decay)


def _gradient(
    network: nn.Module,
    block: list[nn.Parameter],
    part: Rows,
    plan: tuple[Lesson, Slots, Personal],
) -> float:
    """Leave the gradient of one batch in ``block``; its loss."""
    lesson, teachers, personal = plan
    if personal.inner is not None and lesson.aim == "learn" and len(part) > 1:
        return _meta_gradient(network, block, part, personal.inner)
    loss = _loss(lesson, network, part, teachers)
    gradients = torch.autograd.grad(loss, block, allow_unused=True)
    for each, gradient in zip(block, gradients, strict=True):
        each.grad = torch.zeros_like(each) if gradient is None else gradient
    return loss.item()


def _meta_gradient(
    network: nn.Module, block: list[nn.Parameter], part: Rows, inner: float
) -> float:
    """Per-FedAvg's: of the second half's loss, after a step by the first half's."""
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


def _loss(lesson: Lesson, network: nn.Module, part: Rows, teachers: Slots) -> Tensor:
    labels = part.labels
    if lesson.aim == "learn" and isinstance(network, GpflNetwork):
        return network.objective(part.inputs, labels)
    logits = network(part.inputs)
    match lesson.aim:
        case "unlearn":
            return unlearning_cross_entropy(logits, labels).mean()
        case "climb" | "ascend":
            return -cross_entropy(logits, labels)
        case "teachers":
            return _taught(lesson, logits, labels, teachers)
        case "pseudo-labels":
            return kl_teacher_student(logits, teachers["teacher"]).mean()
        case _:
            return cross_entropy(logits, labels)


def _taught(lesson: Lesson, logits: Tensor, labels: Tensor, teachers: Slots) -> Tensor:
    """FedForget's terms at the client that leaves."""
    keep, other = lesson.weights
    first = kl_student_teacher(logits, teachers["teacher"], lesson.temperature)
    if lesson.mode == "ga":
        second = capped_ascent(logits, labels)
    else:
        second = second_term(lesson.mode, logits, teachers["second"], lesson.temperature)
    return (keep * first + other * second).mean()


@torch.no_grad()
def _pull(
    network: nn.Module,
    block: list[nn.Parameter],
    lesson: Lesson,
    slots: Slots,
    personal: Personal,
) -> None:
    """Add the gradient of a quadratic penalty: FedProx's, or the elastic one.

    Not where parameters are the client's own: what the server sent in their places is nobody's.
    """
    if not lesson.proximal:
        return
    anchor, start = slots.get("anchor", slots["model"]), 0
    own = {id(each) for each in chosen(network, personal.own)} if personal.own else set[int]()
    fisher, moved = slots.get("fisher"), {id(each) for each in block} - own
    for each in network.parameters():
        end = start + each.numel()
        if id(each) in moved and each.grad is not None:
            away = each - anchor[start:end].view_as(each)
            if fisher is not None:
                away = away * fisher[start:end].view_as(each)
            each.grad.add_(away, alpha=lesson.proximal)
        start = end


@torch.no_grad()
def _outputs(network: nn.Module, vector: Tensor, rows: Rows) -> Tensor:
    vector_to_parameters(vector.clone(), network.parameters())
    return torch.cat([network(part) for part in torch.split(rows.inputs, 1024)])


def _uniform(network: nn.Module, rows: Rows) -> float:
    """The loss of a uniform guess, log C."""
    with torch.no_grad():
        return float(torch.tensor(float(network(rows.inputs[:1]).shape[1])).log())
