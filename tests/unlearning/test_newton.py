"""Tests of the Newton-CG solver: products with the Hessian, its steps, and the certificate."""

from itertools import pairwise

import pytest
import torch
from one_head import EFFORT, EXACT, Head, bounds, minimise, random_head
from torch import Tensor
from torch.nn.functional import cross_entropy

from unlearning.newton import SolverBudget, curvature, curvature_quadratic, start_solve


def test_curvature_by_hand() -> None:
    # p = (1/2, 1/4, 1/4), R = (4, 0, 8): p∘R = (2, 0, 2), of sum 4; minus 4 p.
    p, votes = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[4.0, 0.0, 8.0]])
    assert curvature(p, votes).tolist() == [[0.0, -1.0, 1.0]]
    assert curvature_quadratic(p, votes).item() == 4.0


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


def test_two_parties_compute_the_same_as_one() -> None:
    two = random_head(3)
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
    (result,) = torch.autograd.grad(curvature_quadratic(p, votes), votes)
    assert torch.allclose(result, curvature(p, votes), rtol=1e-12)


def test_conjugate_gradients_solve_two_equations_in_two_steps() -> None:
    # H = ((4, 1), (1, 3)), g = (-1, -2): the textbook's x = (1/11, 7/11).
    hessian = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    gradient = torch.tensor([-1.0, -2.0], dtype=torch.float64)
    solve = start_solve([torch.zeros_like(gradient)], [gradient])
    direction = solve.residual
    for _ in range(2):
        product = (hessian @ direction[0],)
        before = solve.residual[0].square().sum()
        solve = solve.step(direction, product, float(before / direction[0].dot(product[0])))
        direction = solve.next_direction(
            direction, float(solve.residual[0].square().sum() / before)
        )
    assert solve.solution[0].tolist() == pytest.approx([1 / 11, 7 / 11], rel=1e-14)


@pytest.mark.parametrize("seed", range(50))
def test_the_bound_is_at_least_the_distance_after_every_step(seed: int) -> None:
    result = bounds(seed)
    assert all(bound >= distance for bound, distance in result)
    assert all(after <= before for (before, _), (after, _) in pairwise(result))


def test_the_bound_falls_quadratically_near_the_end() -> None:
    # Exact Newton steps: B_{k+1} is at most a constant times B_k squared.
    steps = minimise(random_head(7), EXACT, lambda norm: norm < 1e-12, 30)
    norms = [each.gradient_norm for each in steps if each.gradient_norm < 1e-1][:4]
    assert len(norms) >= 3
    constants = [after / before**2 for before, after in pairwise(norms)]
    assert max(constants) < 5 * min(constants[0], 10)


def test_a_step_that_is_too_long_is_shortened() -> None:
    # Far from the optimum, with little regularisation, the quadratic model is too optimistic.
    problem = random_head(2, weight=1e-4)
    problem.blocks = tuple(20 * torch.ones_like(each).cumsum(1) for each in problem.blocks)
    steps = minimise(problem, EFFORT, lambda norm: norm < 1e-9, 100)
    assert any(0 < each.length < 1 for each in steps)
    assert steps[-1].gradient_norm < 1e-9


def test_a_step_that_never_lowers_the_gradient_is_not_taken() -> None:
    class WrongSign(Head):
        def product(self) -> float:
            return -super().product()

    fair = random_head(4)
    wrong = WrongSign(fair.features, fair.labels, fair.weight, fair.blocks)
    steps = minimise(wrong, SolverBudget(tolerance=0.5, products=1), lambda norm: False, 3)
    assert [each.length for each in steps] == [1.0, 0.0]
    assert all(torch.equal(a, b) for a, b in zip(fair.blocks, wrong.blocks, strict=True))
    assert steps[0].gradient_norm == steps[1].gradient_norm


def test_a_gradient_of_zero_stops_the_solver() -> None:
    # One row of each class and no features: the initial parameters are the optimum.
    empty = torch.zeros(2, 1, dtype=torch.float64)
    start = (torch.zeros(1, 2, dtype=torch.float64),)
    steps = minimise(Head([empty], torch.tensor([0, 1]), 0.1, start), EFFORT, lambda norm: False, 3)
    assert len(steps) == 1


def test_the_number_of_products_is_limited() -> None:
    problem = random_head(5)
    steps = minimise(problem, SolverBudget(tolerance=1e-12, products=3), lambda norm: False, 2)
    assert [each.products for each in steps] == [0, 3, 3]
