"""Data-free distillation: the student approaches the teacher without any row."""

from dataclasses import replace

import pytest
import torch
from clients import digits
from torch import nn

from models.full_networks import full_mlp
from models.generator import NOISE, image_generator
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator
from parties.horizontal.local.data_free import (
    DistillationRounds,
    MimirDistillation,
    relu_activations,
    train_student,
)
from parties.horizontal.local.local_task import DistillationPlan
from parties.horizontal.local.networks import cut_head
from unlearning.horizontal.data_free import distillation_loss

SHAPE = (1, 8, 8)
PLAN = DistillationPlan(student_steps=5)
PACE = DistillationRounds(rounds=15, batch=64, learning_rate=3e-3)
SHORT = replace(PACE, rounds=2)


def prompted(seed: int) -> PromptedNetwork:
    def make() -> PromptedNetwork:
        backbone, head = cut_head(full_mlp(SHAPE, (32,), 10))
        return PromptedNetwork(backbone, head, PromptGenerator())

    return build_seeded(seed, make)


def distance(one: PromptedNetwork, other: PromptedNetwork) -> float:
    """Return the distillation loss between two networks on generated images and digits."""
    generated = build_seeded(9, lambda: image_generator(SHAPE))(torch.randn(200, NOISE))
    images = torch.cat([generated, digits().inputs[:200]])
    return float(distillation_loss(one(images), other(images), 1.0).detach())


def test_student_approaches_its_teacher() -> None:
    student, teacher, leaving = prompted(1), prompted(2), prompted(3)
    student.generator, student.base = teacher.generator, teacher.base  # as at a remaining client
    student.descriptor = teacher.descriptor
    before = distance(student, teacher)
    train_student(
        MimirDistillation(student, teacher, leaving, PLAN), SHAPE, replace(PACE, rounds=40), 0
    )
    assert distance(student, teacher) < before / 2


def test_prompts_and_teachers_do_not_change() -> None:
    student, teacher, leaving = prompted(1), prompted(2), prompted(3)
    constant = [*student.generator.parameters(), student.base, student.descriptor]
    constant += [*teacher.parameters(), *leaving.parameters()]
    before = [each.detach().clone() for each in constant]
    train_student(MimirDistillation(student, teacher, leaving, PLAN), SHAPE, SHORT, 0)
    assert all(torch.equal(a, b) for a, b in zip(constant, before, strict=True))


def test_same_seed_trains_the_same_student() -> None:
    heads = []
    for seed in (0, 0, 1):
        student = prompted(1)
        train_student(
            MimirDistillation(student, prompted(2), prompted(3), PLAN), SHAPE, SHORT, seed
        )
        heads.append(student.head.weight.detach().clone())
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


@pytest.mark.parametrize("behind", [False, True])
def test_repelling_lowers_similarity_to_the_leaving_client(*, behind: bool) -> None:
    """Both students start from the same weights and use only the feature loss."""
    similarity = {}
    for sign in ("align", "repel"):
        student, leaving = prompted(1), prompted(3)
        plan = replace(PLAN, divergence=0.0, attention=0.0, after_prompt=behind, sign=sign)  # type: ignore[arg-type]
        train_student(MimirDistillation(student, prompted(2), leaving, plan), SHAPE, PACE, 0)
        mine, theirs = (each.features(digits().inputs[:200]) for each in (student, leaving))
        similarity[sign] = float(torch.cosine_similarity(mine, theirs).mean().detach())
    assert similarity["align"] > similarity["repel"] + 0.1


def test_activations_are_recorded_only_within_the_context() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with relu_activations(network) as activations:
        network(torch.rand(5, 4))
    network(torch.rand(5, 4))
    assert [tuple(each.shape) for each in activations] == [(5, 3)]
