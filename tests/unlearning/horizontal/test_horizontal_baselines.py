"""The arithmetic of the other ways to forget a client, by hand."""

import math

import pytest
import torch
from torch import Tensor

from unlearning.horizontal import ball, degradation, erasing, recovery, subspace
from unlearning.horizontal.dampening import dampened


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_federaser_keeps_the_length_and_takes_the_new_direction() -> None:
    assert erasing.calibrated([doubles(3, 4)], [doubles(0, 2)])[0].tolist() == [0, 5]


def test_federaser_of_no_update_is_none() -> None:
    assert erasing.calibrated([doubles(3, 4)], [doubles(0, 0)])[0].tolist() == [0, 0]


def test_fedrecovery_of_one_round_is_training_without_the_client() -> None:
    gradients = torch.tensor([[1, 0], [0, 1], [2, 2]], dtype=torch.float64)
    delta = recovery.residual(gradients, leaving=[2], rate=0.1)
    assert delta.tolist() == pytest.approx([-0.05, -0.05])
    after, without = -0.1 * gradients.mean(dim=0), -0.1 * gradients[:2].mean(dim=0)
    assert (after - delta).tolist() != pytest.approx(after.tolist())
    assert (after - delta).tolist() == pytest.approx(without.tolist())


def test_fedrecovery_of_one_round_is_training_without_any_of_those_who_leave() -> None:
    gradients = torch.tensor([[1, 0], [0, 1], [2, 2], [5, 1]], dtype=torch.float64)
    delta = recovery.residual(gradients, leaving=[2, 3], rate=0.1)
    after, without = -0.1 * gradients.mean(dim=0), -0.1 * gradients[:2].mean(dim=0)
    assert (after - delta).tolist() == pytest.approx(without.tolist())


def test_fedrecovery_weighs_rounds_by_their_gradients() -> None:
    assert recovery.weights(doubles(1, 3)).tolist() == [0.25, 0.75]
    assert recovery.weights(doubles(0, 0)).tolist() == [0.5, 0.5]


def test_noise_of_fedrecovery() -> None:
    assert recovery.noise_scale(1.0, 1e-5, 1.0) == pytest.approx(4.900555, abs=5e-7)


def test_the_centre_of_the_ball_is_the_model_without_the_client() -> None:
    assert ball.centre(doubles(1, 1), doubles(3, 0), 3).tolist() == [0, 1.5]


def test_the_centre_of_the_ball_without_several_clients() -> None:
    """Of models (3, 0), (5, 2) and (1, 1), whose mean is (3, 1), two leave with the mean (4, 1)."""
    assert ball.centre(doubles(3, 1), doubles(4, 1), 3, gone=2).tolist() == [1, 1]
    with pytest.raises(ValueError, match="2 of 2 clients leave"):
        ball.centre(doubles(3, 1), doubles(4, 1), 2, gone=2)


def test_the_distance_that_ends_the_ascent_is_squared() -> None:
    assert ball.squared(doubles(4, 5), doubles(1, 1)) == 25


def test_the_radius_is_a_third_of_the_squared_distance_to_random_models() -> None:
    random = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    assert ball.radius(torch.zeros(2), random) == pytest.approx(math.sqrt(3))


def test_a_step_out_of_the_ball_ends_at_its_edge() -> None:
    assert ball.within(doubles(4, 1), doubles(1, 1), 2.0).tolist() == [3, 1]
    assert ball.within(doubles(2, 1), doubles(1, 1), 2.0).tolist() == [2, 1]


def test_mode_mixes_in_the_degradation_model() -> None:
    assert degradation.degraded(doubles(1, 0), doubles(0, 2), 0.9).tolist() == pytest.approx(
        [0.9, 0.2]
    )


def test_sfu_leaves_the_other_clients_outputs_alone() -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    kept = subspace.directions(inputs, 0.99)
    assert kept.shape == (3, 1)
    update = torch.tensor([[1.0, 3.0, 5.0]])
    found = subspace.outside(update, kept)
    assert found[0].tolist() == pytest.approx([-1, 1, 5], abs=1e-5)
    assert (found @ inputs).abs().max() < 1e-5


def test_a_bias_is_the_weight_of_an_input_of_one() -> None:
    """On the inputs (1, 0) and (0, 1), [W | b] = (1, 2 | 3) may only move along (1, 1 | −1)."""
    inputs = torch.eye(2, dtype=torch.float64)
    joint = subspace.with_ones(inputs)
    assert joint.tolist() == [[1, 0], [0, 1], [1, 1]]
    found = subspace.outside(doubles(1, 2, 3)[None], subspace.directions(joint, 1.0))
    assert found[0].tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    found = subspace.outside(doubles(3, 0, 0)[None], subspace.directions(joint, 1.0))
    assert found[0].tolist() == pytest.approx([1, 1, -1])


def test_sfu_keeps_as_many_directions_as_the_energy_asks_for() -> None:
    inputs = torch.diag(torch.tensor([3.0, 1.0]))  # squared singular values 9 and 1
    found = [subspace.directions(inputs, energy).shape[1] for energy in (0.9, 0.91, 1.0)]
    assert found == [1, 2, 2]
    assert subspace.directions(torch.zeros(4, 2), 0.9).shape == (4, 0)


def test_only_what_the_leaving_client_needs_more_is_dampened() -> None:
    model, own, others = doubles(1, 1, 1), doubles(10, 4, 0), doubles(1, 1, 0)
    assert dampened(model, own, others, ratio=5, strength=2).tolist() == pytest.approx([0.2, 1, 1])
