"""Tests of the server optimisers, by hand."""

import pytest
import torch

from models.server_optimisers import (
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    Form,
    ServerOptimiser,
    optimiser_moments,
)

DELTA = torch.tensor([1.0, -0.5], dtype=torch.float64)
ZERO = torch.zeros(2, dtype=torch.float64)


def moved(rule: ServerOptimiser) -> list[float]:
    result: list[float] = rule.step(ZERO, DELTA)[0].tolist()
    return result


def test_fedavg_takes_the_mean_change() -> None:
    assert moved(FedAvg()) == [1.0, -0.5]
    assert moved(FedAvg(rate=0.5)) == [0.5, -0.25]


def test_fedavgm_of_two_equal_changes() -> None:
    model, rule = FedAvgM().step(ZERO, DELTA)
    assert model.tolist() == [1.0, -0.5]
    assert rule.m is not None
    assert rule.step(model, DELTA)[1].m.tolist() == pytest.approx([1.9, -0.95])  # type: ignore[union-attr]


def test_fedadagrad() -> None:
    assert moved(FedAdagrad()) == pytest.approx([0.000999, -0.000998], abs=5e-7)


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("paper", [0.0099005, -0.009802]),
        ("reddi", [0.00099005, -0.0009802]),
        ("code", [0.0099005, -0.009802]),
    ],
)
def test_fedadam(form: Form, step: list[float]) -> None:
    """The moment is Δ, or 0.1 Δ in the form of Reddi et al.; v is 0.01 Δ² + 0.99e-6."""
    assert moved(FedAdam(form=form)) == pytest.approx(step, rel=1e-4)


def test_second_moments() -> None:
    _, adam = FedAdam(form="reddi").step(ZERO, DELTA)
    _, yogi = FedAdam(form="reddi", yogi=True).step(ZERO, DELTA)
    assert adam.v is not None
    assert yogi.v is not None
    assert adam.v.tolist() == pytest.approx([0.01000099, 0.00250099])
    assert yogi.v.tolist() == pytest.approx([0.010001, 0.002501])


@pytest.mark.parametrize(
    ("rule", "m", "v", "step"),
    [
        # m = .9 m + .1 (.05), where m was 1, or .1 in the form of Reddi et al. v of the second:
        # Adam .99 (.01000099) + .01 (.0025); Yogi, as v is above Δ², .010001 - .01 (.0025);
        # the code's Adam, of m², .99 (.01000099) + .01 (.819025); the code's Yogi, as v is below
        # m², .010001 + .01 (.819025); Adagrad 1.000001 + .0025.
        (FedAdam(), 0.905, 0.00992598, 0.0089934),
        (FedAdam(form="reddi"), 0.095, 0.00992598, 0.00094405),
        (FedAdam(yogi=True), 0.905, 0.009976, 0.0089710),
        (FedAdam(form="code"), 0.905, 0.0180912301, 0.0066788),
        (FedAdam(form="code", yogi=True), 0.905, 0.01819125, 0.0066605),
        (FedAdagrad(), None, 1.002501, 4.98878e-5),
    ],
    ids=["adam", "reddi's adam", "yogi", "the code's adam", "the code's yogi", "adagrad"],
)
def test_the_second_step(rule: ServerOptimiser, m: float | None, v: float, step: float) -> None:
    """The changes are Δ = 1, then 0.05; the moments of the first are kept."""
    zero = torch.zeros(1, dtype=torch.float64)
    model, rule = rule.step(zero, torch.ones_like(zero))
    after, rule = rule.step(model, torch.full_like(zero, 0.05))
    known = {name: each.item() for name, each in optimiser_moments(rule).items()}
    assert known == pytest.approx({"v": v} if m is None else {"m": m, "v": v}, rel=1e-4)
    assert (after - model).item() == pytest.approx(step, rel=1e-4)


def test_a_step_does_not_change_the_rule() -> None:
    rule = FedAdam()
    rule.step(ZERO, DELTA)
    assert rule.m is None
    assert rule.v is None
