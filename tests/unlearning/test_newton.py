"""Tests of the Newton-CG head: products with the Hessian, the certificate, and every step."""

from itertools import pairwise

import pytest
import torch
from one_head import EFFORT, EXACT, Head, bounds, head
from torch import Tensor
from torch.nn.functional import cross_entropy

from unlearning.newton import Effort, begin, curvature, minimise, quadratic


def test_curvature_by_hand() -> None:
    # p = (1/2, 1/4, 1/4), R = (4, 0, 8): p∘R = (2, 0, 2), of sum 4; minus 4 p.
    p, votes = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[4.0, 0.0, 8.0]])
    assert curvature(p, votes).tolist() == [[0.0, -1.0, 1.0]]
    assert quadratic(p, votes).item() == 4.0


def test_the_products_with_the_hessian_are_finite_differences_of_the_gradient() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    theta, direction = (
        torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(2)
    )

    def gradient(at: Tensor) -> Tensor:
        free = at.clone().requires_grad_()
        loss = cross_entropy(features @ free, labels) + 0.1 / 2 * free.square().sum()
        return torch.autograd.grad(loss, free)[0]

    size = 1e-4  # central differences of the fourth order: the error is about size^4
    far = (gradient(theta - 2 * size * direction) - gradient(theta + 2 * size * direction)) / 12
    near = 8 * (gradient(theta + size * direction) - gradient(theta - size * direction)) / 12
    problem = Head([features], labels, 0.1, (theta,))
    problem.gradient()
    problem.blocks = (direction,)
    problem.product()
    assert (problem.held[0] - (near + far) / size).abs().max() < 1e-9


def test_parties_apart_compute_what_one_party_computes() -> None:
    two = head(3)
    one = Head([torch.cat(list(two.features), dim=1)], two.labels, two.weight, (
        torch.cat(list(two.blocks)),
    ))  # fmt: skip
    assert two.gradient() == pytest.approx(one.gradient(), rel=1e-12)
    assert (torch.cat(two.held) - one.held[0]).abs().max() < 1e-12
    two.begin()
    one.begin()
    assert two.product() == pytest.approx(one.product(), rel=1e-12)
    assert (torch.cat(two.held) - one.held[0]).abs().max() < 1e-12


def test_the_gradient_of_the_quadratic_is_the_curvature() -> None:
    p = torch.softmax(torch.randn(5, 3, dtype=torch.float64), dim=1)
    votes = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(quadratic(p, votes), votes)
    assert torch.allclose(found, curvature(p, votes), rtol=1e-12)


def test_conjugate_gradients_solve_two_equations_in_two_steps() -> None:
    # H = ((4, 1), (1, 3)), g = (-1, -2): the textbook's x = (1/11, 7/11).
    hessian = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    gradient = torch.tensor([-1.0, -2.0], dtype=torch.float64)
    solve = begin([torch.zeros_like(gradient)], [gradient])
    direction = solve.residual
    for _ in range(2):
        product = (hessian @ direction[0],)
        before = solve.residual[0].square().sum()
        solve = solve.advance(direction, product, float(before / direction[0].dot(product[0])))
        direction = solve.turn(direction, float(solve.residual[0].square().sum() / before))
    assert solve.solution[0].tolist() == pytest.approx([1 / 11, 7 / 11], rel=1e-14)


@pytest.mark.parametrize("seed", range(50))
def test_the_bound_is_at_least_the_distance_after_every_step(seed: int) -> None:
    found = bounds(seed)
    assert all(bound >= distance for bound, distance in found)
    assert all(after <= before for (before, _), (after, _) in pairwise(found))


def test_the_bound_falls_quadratically_near_the_end() -> None:
    # Exact Newton steps: B_{k+1} is at most a constant times B_k squared.
    walked = minimise(head(7), EXACT, lambda norm: norm < 1e-12, 30)
    norms = [each.gradient_norm for each in walked if each.gradient_norm < 1e-1][:4]
    assert len(norms) >= 3
    constants = [after / before**2 for before, after in pairwise(norms)]
    assert max(constants) < 5 * min(constants[0], 10)


def test_a_step_that_is_too_long_is_gone_in_part() -> None:
    # Far from the optimum with little weight the quadratic promises too much.
    problem = head(2, weight=1e-4)
    problem.blocks = tuple(20 * torch.ones_like(each).cumsum(1) for each in problem.blocks)
    walked = minimise(problem, EFFORT, lambda norm: norm < 1e-9, 100)
    assert any(0 < each.length < 1 for each in walked)
    assert walked[-1].gradient_norm < 1e-9


def test_where_nothing_gets_smaller_nothing_moves() -> None:
    class Misled(Head):
        def product(self) -> float:
            return -super().product()

    fair = head(4)
    misled = Misled(fair.features, fair.labels, fair.weight, fair.blocks)
    walked = minimise(misled, Effort(tolerance=0.5, products=1), lambda norm: False, 3)
    assert [each.length for each in walked] == [1.0, 0.0]
    assert all(torch.equal(a, b) for a, b in zip(fair.blocks, misled.blocks, strict=True))
    assert walked[0].gradient_norm == walked[1].gradient_norm


def test_a_gradient_of_zero_ends_the_walk() -> None:
    # One row of each class and no features: the optimum is where it begins.
    empty = torch.zeros(2, 1, dtype=torch.float64)
    start = (torch.zeros(1, 2, dtype=torch.float64),)
    walked = minimise(
        Head([empty], torch.tensor([0, 1]), 0.1, start), EFFORT, lambda norm: False, 3
    )
    assert len(walked) == 1


def test_products_are_bounded() -> None:
    problem = head(5)
    walked = minimise(problem, Effort(tolerance=1e-12, products=3), lambda norm: False, 2)
    assert [each.products for each in walked] == [0, 3, 3]
