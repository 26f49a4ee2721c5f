"""Tests of the losses of data-free distillation, of the gates, and of the image generator."""

import math

import pytest
import torch

from models.generator import NOISE, image_generator
from unlearning.horizontal.data_free import (
    FeatureSign,
    attention_loss,
    attention_map,
    distillation_loss,
    feature_loss,
    feature_similarity,
    leaving_class_probability,
)


@pytest.mark.parametrize(
    ("sign", "same", "orthogonal", "opposite"),
    [("align", 0.0, 1.0, 2.0), ("repel", 2.0, 1.0, 0.0), ("orthogonal", 1.0, 0.0, 1.0)],
)
def test_the_feature_loss_and_its_signs(
    sign: FeatureSign, same: float, orthogonal: float, opposite: float
) -> None:
    f = torch.tensor([[1.0, 0.0]])
    others = (f, torch.tensor([[0.0, 3.0]]), -2 * f)
    result = [feature_loss(f, other, sign).item() for other in others]
    assert result == pytest.approx([same, orthogonal, opposite])


def test_distillation_is_the_teacher_s_divergence_times_the_squared_temperature() -> None:
    p, q = (torch.tensor([row]).log() for row in ((0.5, 0.3, 0.2), (0.7, 0.2, 0.1)))
    assert distillation_loss(p, q, 1.0).item() == pytest.approx(0.085123, abs=1e-6)
    assert distillation_loss(2 * p, 2 * q, 2.0).item() == pytest.approx(4 * 0.085123, abs=4e-6)


def test_attention_maps_and_loss_by_hand() -> None:
    layer = torch.randn(4, 3, 5, 5)
    assert attention_loss([layer], [layer.clone()]).item() == 0.0
    assert attention_loss([], []).item() == 0.0
    assert attention_map(layer).norm(dim=1).tolist() == pytest.approx([1.0] * 4)
    one, two = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.0, 1.0]]]])
    assert attention_loss([one], [two]).item() == pytest.approx(1.0)
    assert attention_map(torch.tensor([[[[1.0]], [[3.0]]]])).item() == pytest.approx(1.0)


def test_gate_scores_by_hand() -> None:
    probabilities = torch.tensor([[0.98, 0.01, 0.01], [0.5, 0.25, 0.25]])
    result = leaving_class_probability(probabilities.log(), torch.tensor([1, 2]))
    assert result.tolist() == pytest.approx([0.02, 0.5])
    mine, theirs = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    assert feature_similarity(mine, theirs).tolist() == pytest.approx([1.0, math.sqrt(0.5)])


def test_the_generator_returns_images_of_the_shape() -> None:
    images = image_generator((3, 28, 28))(torch.randn(2, NOISE))
    assert images.shape == (2, 3, 28, 28)
    assert 0 <= float(images.detach().min()) <= float(images.detach().max()) <= 1
    with pytest.raises(ValueError, match="multiples of four"):
        image_generator((1, 30, 28))
    assert math.isfinite(float(images.detach().sum()))
