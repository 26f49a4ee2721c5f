"""Tests of the horizontal baselines' arithmetic, by hand."""

import math

import pytest
import torch
from torch import Tensor

from unlearning.horizontal.baselines import (
    append_ones,
    ball_centre,
    ball_radius,
    calibrated_update,
    dampen_parameters,
    leading_directions,
    mode_erasure,
    project_to_ball,
    recovery_noise_scale,
    recovery_residual,
    recovery_weights,
    remove_subspace,
    squared_model_distance,
)


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_federaser_keeps_the_norm_and_uses_the_new_direction() -> None:
    assert calibrated_update([doubles(3, 4)], [doubles(0, 2)])[0].tolist() == [0, 5]


def test_federaser_of_a_zero_update_is_zero() -> None:
    assert calibrated_update([doubles(3, 4)], [doubles(0, 0)])[0].tolist() == [0, 0]


def test_fedrecovery_of_one_round_is_training_without_the_client() -> None:
    gradients = torch.tensor([[1, 0], [0, 1], [2, 2]], dtype=torch.float64)
    delta = recovery_residual(gradients, doubles(7, 7, 7), leaving=[2], rate=0.1)
    assert delta.tolist() == pytest.approx([-0.05, -0.05])
    after, without = -0.1 * gradients.mean(dim=0), -0.1 * gradients[:2].mean(dim=0)
    assert (after - delta).tolist() != pytest.approx(after.tolist())
    assert (after - delta).tolist() == pytest.approx(without.tolist())


def test_fedrecovery_of_one_round_is_training_without_both_clients() -> None:
    gradients = torch.tensor([[1, 0], [0, 1], [2, 2], [5, 1]], dtype=torch.float64)
    delta = recovery_residual(gradients, doubles(7, 7, 7, 7), leaving=[2, 3], rate=0.1)
    after, without = -0.1 * gradients.mean(dim=0), -0.1 * gradients[:2].mean(dim=0)
    assert (after - delta).tolist() == pytest.approx(without.tolist())


def test_fedrecovery_of_clients_with_different_numbers_of_rows() -> None:
    """Weighted means: of all (1 · 1 + 9 · 2 + 30 · 2, 3 · 9 + 30 · 2) / 40, of the rest / 10."""
    gradients = torch.tensor([[1, 0], [2, 3], [2, 2]], dtype=torch.float64)
    delta = recovery_residual(gradients, doubles(1, 9, 30), leaving=[2], rate=1.0)
    after, without = doubles(-79 / 40, -87 / 40), doubles(-1.9, -2.7)
    assert (after - delta).tolist() == pytest.approx(without.tolist())


def test_fedrecovery_weights_by_hand() -> None:
    assert recovery_weights(doubles(1, 3)).tolist() == [0.25, 0.75]
    assert recovery_weights(doubles(0, 0)).tolist() == [0.5, 0.5]


def test_fedrecovery_noise_scale_by_hand() -> None:
    assert recovery_noise_scale(1.0, 1e-5, 1.0) == pytest.approx(4.900555, abs=5e-7)


def test_the_centre_of_the_ball_is_the_model_without_the_client() -> None:
    assert ball_centre(doubles(1, 1), doubles(3, 0), 3).tolist() == [0, 1.5]


def test_the_centre_of_the_ball_without_several_clients() -> None:
    """The models are (3, 0), (5, 2) and (1, 1), with mean (3, 1); the first two leave."""
    assert ball_centre(doubles(3, 1), doubles(4, 1), 3, gone=2).tolist() == [1, 1]
    with pytest.raises(ValueError, match="2 of 2 clients leave"):
        ball_centre(doubles(3, 1), doubles(4, 1), 2, gone=2)


def test_the_distance_for_early_stopping_is_squared() -> None:
    assert squared_model_distance(doubles(4, 5), doubles(1, 1)) == 25


def test_the_radius_is_a_third_of_the_squared_distance_to_random_models() -> None:
    random = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    assert ball_radius(torch.zeros(2), random) == pytest.approx(math.sqrt(3))


def test_a_model_outside_the_ball_is_projected_to_its_edge() -> None:
    assert project_to_ball(doubles(4, 1), doubles(1, 1), 2.0).tolist() == [3, 1]
    assert project_to_ball(doubles(2, 1), doubles(1, 1), 2.0).tolist() == [2, 1]


def test_mode_mixes_in_the_degradation_model() -> None:
    assert mode_erasure(doubles(1, 0), doubles(0, 2), 0.9).tolist() == pytest.approx([0.9, 0.2])


def test_sfu_does_not_change_the_other_clients_outputs() -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    directions = leading_directions(inputs, 0.99)
    assert directions.shape == (3, 1)
    update = torch.tensor([[1.0, 3.0, 5.0]])
    result = remove_subspace(update, directions)
    assert result[0].tolist() == pytest.approx([-1, 1, 5], abs=1e-5)
    assert (result @ inputs).abs().max() < 1e-5


def test_sfu_with_a_bias() -> None:
    """With inputs (1, 0) and (0, 1), the update [W | b] may only have a part along (1, 1 | −1)."""
    inputs = torch.eye(2, dtype=torch.float64)
    joint = append_ones(inputs)
    assert joint.tolist() == [[1, 0], [0, 1], [1, 1]]
    result = remove_subspace(doubles(1, 2, 3)[None], leading_directions(joint, 1.0))
    assert result[0].tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    result = remove_subspace(doubles(3, 0, 0)[None], leading_directions(joint, 1.0))
    assert result[0].tolist() == pytest.approx([1, 1, -1])


def test_sfu_keeps_enough_directions_for_the_energy() -> None:
    inputs = torch.diag(torch.tensor([3.0, 1.0]))  # squared singular values 9 and 1
    result = [leading_directions(inputs, energy).shape[1] for energy in (0.9, 0.91, 1.0)]
    assert result == [1, 2, 2]
    assert leading_directions(torch.zeros(4, 2), 0.9).shape == (4, 0)


def test_directions_are_stored_row_by_row_as_a_resumed_method_reads_them() -> None:
    inputs = torch.randn(8, 20, generator=torch.Generator().manual_seed(0))
    assert leading_directions(inputs, 0.9).is_contiguous()


def test_only_parameters_that_matter_for_the_leaving_client_are_dampened() -> None:
    model, own, others = doubles(1, 1, 1), doubles(10, 4, 0), doubles(1, 1, 0)
    assert dampen_parameters(model, own, others, ratio=5, strength=2).tolist() == pytest.approx(
        [0.2, 1, 1]
    )
