"""Mimir's unlearning at a client that stays: a student learns from teachers and generated images.

Letters as in ``unlearning.horizontal.data_free``; DG = the generator, T_u rounds of one step of DG
and T_k of the student each (paper 003, Alg 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.prompts import Prompted
from parties.horizontal.local.data_free import activations
from parties.horizontal.local.distillation import Distillation
from unlearning.horizontal.data_free import attention_loss, distillation_loss, feature_loss


@dataclass(frozen=True, slots=True)
class Overshadowing:
    """See ``Game``: backbone and head of ``student`` learn from all images.

    ``teacher`` has the descriptor of the client that stays, as the student has, and ``leaving``
    that of the client that leaves.
    """

    student: Prompted
    teacher: Prompted
    leaving: Prompted
    plan: Distillation

    @property
    def learns(self) -> Sequence[nn.Parameter]:
        """See ``Game``."""
        return [*self.student.backbone.parameters(), *self.student.head.parameters()]

    @property
    def inner(self) -> int:
        """T_k."""
        return self.plan.inner

    @property
    def most(self) -> float:
        """All images are shown."""
        return 0.0

    def gate(self, images: Tensor) -> Tensor:
        """See ``Game``."""
        return torch.zeros(len(images))

    def loss(self, images: Tensor) -> Tensor:
        """L_S = L_F + β L_K + γ L_att (Mimir Eq 18)."""
        with activations(self.student.backbone) as ours, activations(self.teacher.backbone) as told:
            loss = self.hard(images)
        return loss + self.plan.attention * attention_loss(ours, told)

    def hard(self, images: Tensor) -> Tensor:
        """L_F + β L_K, which DG climbs (Mimir Eq 19)."""
        student, plan = self.student, self.plan
        before, theirs = student.backbone(images), self.leaving.backbone(images)
        behind = student.refined(before)
        logits = student.head(behind)
        divergence = distillation_loss(logits, self.teacher(images), plan.temperature)
        if plan.behind:
            alike = feature_loss(behind, self.leaving.refined(theirs), plan.sign)
        else:
            alike = feature_loss(before, theirs, plan.sign)
        return alike + plan.divergence * divergence
