"""GKT at a client that stays: a student learns what its teacher says of images behind a gate.

The gate keeps back what belongs to the leaving client: by its classes, as in the source (Chundawat
et al. 2023), or by its features, as Mimir's authors have it for prompted networks. In the source
the divergence is a mean over classes, too; here it is one over rows, and so weighs more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.prompts import Prompted
from parties.horizontal.local.data_free import activations
from parties.horizontal.local.distillation import Gate
from unlearning.horizontal.data_free import (
    attention_loss,
    class_chance,
    distillation_loss,
    feature_likeness,
)


@dataclass(frozen=True, slots=True)
class GatedTransfer:
    """See ``Game``.

    Attributes:
        learns: what of the student is not a client's own and no prompt.
        leaving: with the descriptor of the client that leaves; None: the gate goes by classes.
    """

    student: nn.Module
    teacher: nn.Module
    leaving: Prompted | None
    learns: Sequence[nn.Parameter]
    plan: Gate

    @property
    def inner(self) -> int:
        """See ``Game``."""
        return self.plan.inner

    @property
    def most(self) -> float:
        """See ``Game``."""
        return self.plan.most

    def gate(self, images: Tensor) -> Tensor:
        """See ``Game``."""
        teacher, leaving = self.teacher, self.leaving
        if leaving is not None and isinstance(teacher, Prompted):
            return feature_likeness(teacher.features(images), leaving.features(images))
        return class_chance(teacher(images), torch.tensor(self.plan.classes))

    def loss(self, images: Tensor) -> Tensor:
        """L_K and the weighted L_att."""
        with activations(self.student) as ours, activations(self.teacher) as theirs:
            loss = self.hard(images)
        return loss + self.plan.attention * attention_loss(ours, theirs)

    def hard(self, images: Tensor) -> Tensor:
        """L_K."""
        return distillation_loss(self.student(images), self.teacher(images), self.plan.temperature)
