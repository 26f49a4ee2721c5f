"""Data-free distillation at a remaining client: Mimir, and gated knowledge transfer (GKT).

A student model is trained to predict like a teacher model on generated images; no training row is
used. The generator is trained to produce images on which student and teacher differ most, as in
ZSKT (Micaelli and Storkey 2019).

Notation as in ``unlearning.horizontal.data_free``; DG = the generator; T_u = number of rounds; T_k
= number of the student's steps per round; DG takes one step per round (Mimir, paper 003, Alg 2).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from models.generator import NOISE, image_generator
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork
from parties.common.shared_randomness import torch_seed
from parties.horizontal.local.local_task import DistillationPlan, GatePlan
from unlearning.horizontal.data_free import (
    attention_loss,
    distillation_loss,
    feature_loss,
    feature_similarity,
    leaving_class_probability,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationRounds:
    """Length and optimiser settings of a distillation; student and generator use Adam."""

    rounds: int  # T_u, number of rounds
    batch: int = 128  # number of images per round
    learning_rate: float = 1e-3  # learning rate of the student and of the generator
    clip: float = 5.0  # largest norm of a gradient


class DistillationObjective(Protocol):
    """The losses of student and generator, and the gate, a test that selects images."""

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The parameters of the student that are trained."""

    @property
    def plan(self) -> DistillationPlan | GatePlan:
        """The weights of the losses, and the student's steps on one batch of images."""

    @property
    def threshold(self) -> float:
        """Largest score of an image on which the student trains."""

    def gate(self, images: Tensor) -> Tensor:
        """Return a score per image, ``[rows]``; images similar to the forgotten data score high.

        ``images`` are ``[rows, channels, height, width]``.
        """

    def student_loss(self, images: Tensor) -> Tensor:
        """Return the loss that the student minimises, a scalar.

        ``images`` are ``[rows, channels, height, width]``.
        """

    def generator_gain(self, images: Tensor) -> Tensor:
        """Return the objective that the generator maximises, a scalar.

        ``images`` are ``[rows, channels, height, width]``.
        """


def train_student(
    objective: DistillationObjective, shape: Sequence[int], plan: DistillationRounds, seed: int
) -> float:
    """Train the student in place; return its last loss, or 0 if no image ever passed the gate.

    In a round in which no image passes the gate, the student does not train, and the generator
    minimises the gate's score. In such a round, the original GKT restores an earlier generator.

    Args:
        objective: the losses and the gate.
        shape: shape of one image: channels, height, width.
        plan: length and optimiser settings of the distillation.
        seed: seed of the generator's weights and of the noise.
    """
    generator = build_seeded(torch_seed(seed, "generator"), lambda: image_generator(shape))
    noise = torch.Generator().manual_seed(torch_seed(seed, "noise"))
    trained = list(objective.trained)
    student_optimiser = torch.optim.Adam(trained, plan.learning_rate)
    generator_optimiser = torch.optim.Adam(generator.parameters(), plan.learning_rate)
    loss = torch.zeros(())
    for _ in range(plan.rounds):
        z = torch.randn(plan.batch, NOISE, generator=noise)
        images = generator(z)
        gate = objective.gate(images)
        passed = gate <= objective.threshold
        block = list(generator.parameters())
        if not passed.any():
            _step(generator_optimiser, block, gate.mean(), plan.clip)
            continue
        for _ in range(objective.plan.student_steps):
            loss = objective.student_loss(images.detach()[passed])
            _step(student_optimiser, trained, loss, plan.clip)
        _step(generator_optimiser, block, -objective.generator_gain(images[passed]), plan.clip)
    return float(loss.detach())


def _step(
    optimiser: torch.optim.Optimizer, block: Sequence[nn.Parameter], loss: Tensor, clip: float
) -> None:
    gradients = torch.autograd.grad(loss, block)
    for each, gradient in zip(block, gradients, strict=True):
        each.grad = gradient
    nn.utils.clip_grad_norm_(block, clip)
    optimiser.step()


@contextmanager
def relu_activations(network: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the outputs of the network's ReLU layers during the ``with`` block.

    Yields:
        A list to which each computed ReLU layer appends its output, ``[rows, ...]``.
    """
    found: list[Tensor] = []

    def note(_layer: nn.Module, _given: tuple[Tensor, ...], out: Tensor) -> None:
        found.append(out)

    hooks = [e.register_forward_hook(note) for e in network.modules() if isinstance(e, nn.ReLU)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True, slots=True)
class MimirDistillation:
    """Mimir's losses; the student's backbone and head are trained on all images."""

    student: PromptedNetwork  # the student, with the descriptor of the remaining client
    teacher: PromptedNetwork  # T_R, the original model with the descriptor of the remaining client
    leaving: PromptedNetwork  # T_F, the original model with the descriptor of the leaving client
    plan: DistillationPlan  # the weights of the losses

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        """The parameters of the student's backbone and head."""
        return [*self.student.backbone.parameters(), *self.student.head.parameters()]

    @property
    def threshold(self) -> float:
        """Threshold of the gate: 0. Every image has the score 0, so all images pass."""
        return 0.0

    def gate(self, images: Tensor) -> Tensor:
        """Return a score per image, ``[rows]``: 0, so that the student trains on all images."""
        return torch.zeros(len(images))

    def student_loss(self, images: Tensor) -> Tensor:
        """Return the student's loss L_S, a scalar."""
        # Mimir (paper 003) Eq 18: L_S = L_F + β L_K + γ L_att.
        student, teacher = self.student.backbone, self.teacher.backbone
        with relu_activations(student) as ours, relu_activations(teacher) as theirs:
            loss = self.generator_gain(images)
        return loss + self.plan.attention * attention_loss(ours, theirs)

    def generator_gain(self, images: Tensor) -> Tensor:
        """Return the objective that DG maximises, a scalar."""
        # Mimir (paper 003) Eq 19: L_F + β L_K.
        student, plan = self.student, self.plan
        before, leaving_before = student.backbone(images), self.leaving.backbone(images)
        after = student.prompt_features(before)
        logits = student.head(after)
        divergence = distillation_loss(logits, self.teacher(images), plan.temperature)
        if plan.after_prompt:
            features = feature_loss(after, self.leaving.prompt_features(leaving_before), plan.sign)
        else:
            features = feature_loss(before, leaving_before, plan.sign)
        return features + plan.divergence * divergence


@dataclass(frozen=True, slots=True)
class GatedTransfer:
    """Gated knowledge transfer: the gate excludes images that resemble the forgotten data.

    The gate compares classes, as in the original GKT (Chundawat et al. 2023), or features, as
    Mimir's authors do for prompted networks (paper 003, §VI-A3). The divergence is a mean over
    rows. The original GKT takes the mean over rows and classes, which gives the divergence less
    weight.
    """

    student: nn.Module  # the network that is trained
    teacher: nn.Module  # the original model with the remaining client's personal parameters
    # The original model with the descriptor of the leaving client; None if the gate compares
    # classes.
    leaving: PromptedNetwork | None
    # The parameters of the student that are neither personal nor part of a prompt.
    trained: Sequence[nn.Parameter]
    plan: GatePlan  # the weights of the losses, and the threshold of the gate

    @property
    def threshold(self) -> float:
        """Largest score (a similarity or a probability) of an image that passes the gate."""
        return self.plan.threshold

    def gate(self, images: Tensor) -> Tensor:
        """Return a score per image, ``[rows]``.

        The score is the similarity of features, or the probability of the forgotten classes.
        """
        teacher, leaving = self.teacher, self.leaving
        if leaving is not None and isinstance(teacher, PromptedNetwork):
            return feature_similarity(teacher.features(images), leaving.features(images))
        return leaving_class_probability(teacher(images), torch.tensor(self.plan.classes))

    def student_loss(self, images: Tensor) -> Tensor:
        """Return the student's loss: L_K plus the weighted L_att, a scalar."""
        with relu_activations(self.student) as ours, relu_activations(self.teacher) as theirs:
            loss = self.generator_gain(images)
        return loss + self.plan.attention * attention_loss(ours, theirs)

    def generator_gain(self, images: Tensor) -> Tensor:
        """Return the objective that the generator maximises: L_K, a scalar."""
        return distillation_loss(self.student(images), self.teacher(images), self.plan.temperature)
