"""FedORA between parties: the schedule of the primal step, and when the score counts as reached."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixed_threshold import run_fedora
from three_parties import (
    LIMITS,
    PAPER,
    forget_some,
    open_split_model,
    start_training,
    write_data,
)

from parties.requests.driver import carry_out
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods import fedora as fedora_method
from parties.vertical.methods.fedora import Schedule, noise_draws
from parties.vertical.methods.fedora_settings import AdaptiveStepSettings, FedoraSettings
from parties.vertical.methods.fedora_thresholds import calibrate_top
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import vertical_method
from parties.vertical.methods.run import train_epoch
from protocol import vfl_pb2

PLAN = PAPER | {"adaptive": False, "iterations": 4, "check_every": 9, "utility_loss": 1.0}


def fedora(folder: Path, gamma: float, pass_rows: int = 4096, **settings: Any) -> MethodResult:
    """Run FedORA with the threshold ``gamma`` from a model that was not trained."""
    plan = {"unlearning": {"fedora": PLAN | settings}, "limits": LIMITS | {"pass_rows": pass_rows}}
    with open_split_model(folder, **plan) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        return run_fedora(split_model, gamma, 0.0)


def test_primal_steps_follow_the_schedule_by_hand(tmp_path: Path) -> None:
    """Iterations begin at 0, 1/4, 1/2 and 3/4; at 3/4 the cosine is half-way from 1 to 0.2."""
    anneal = {"warmup": 0.25, "hold": 0.5, "floor": 0.2}
    result = fedora(tmp_path, 1.0, anneal=anneal, primal_step=0.01)
    steps = [each["primal_step"] for each in result.iterations]
    assert steps == pytest.approx([0.002, 0.01, 0.01, 0.006])


@pytest.mark.parametrize(
    ("gamma", "iterations", "stopped"),
    [(-2.19, 2, "converged"), (2.19, 4, "out of iterations")],
    ids=["score above", "score below"],
)
def test_only_a_score_of_at_least_the_threshold_ends_unlearning(
    tmp_path: Path, gamma: float, iterations: int, stopped: str
) -> None:
    """ω log C = 2.197 bounds the score; the second iteration is the first with a known change."""
    result = fedora(tmp_path, gamma, primal_step=1e-6)
    assert (len(result.iterations), result.stopped) == (iterations, stopped)


@pytest.mark.parametrize("calibrate", [True, False])
def test_calibration_restores_the_median_confidence(tmp_path: Path, calibrate: bool) -> None:
    """The original's logits are 1.4 times as large, so the top model is scaled by 1.4.

    All forgotten rows are of class 0, so the validation rows of the other classes are compared.
    """
    plan = {"fedora": PLAN | {"calibrate": calibrate}}
    with open_split_model(tmp_path, unlearning=plan) as (split_model, _):
        train = split_model.rows.train
        split_model.forget(np.sort(train[(split_model.labels[train] == 0).numpy()][:5]))
        start_training(split_model, "original")
        run = NetworkRun(split_model)
        before = run.logits(vfl_pb2.VALIDATION)[0]
        factor = calibrate_top(run, [1.4 * before])
        after = run.logits(vfl_pb2.VALIDATION)[0]
    expected = 1.4 if calibrate else 1.0
    assert factor == (pytest.approx(1.4, rel=1e-5) if calibrate else None)
    torch.testing.assert_close(after, expected * before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("gamma", "title", "meaning"),
    [
        (-2.19, "Fine-tune", "FedORA, constraint inactive: Ω was always 0"),
        (2.19, "FedORA", "constraint active in 4 of 4 iterations"),
    ],
    ids=["constraint met", "constraint violated"],
)
def test_run_bears_the_name_fedora_only_if_its_constraint_took_part(
    tmp_path: Path, gamma: float, title: str, meaning: str
) -> None:
    result = fedora(tmp_path, gamma, primal_step=1e-3)
    assert result.label == (title, meaning)


def test_label_tells_that_the_dual_reached_its_maximum(tmp_path: Path) -> None:
    result = fedora(tmp_path, 2.19, primal_step=1e-6, dual_step=1.0, max_multiplier=1e-6)
    assert result.label is not None
    assert result.label.meaning == "constraint active in 4 of 4 iterations, at its maximum in 4"


@pytest.mark.parametrize(
    ("form", "gamma", "zero"),
    [("tuned", -2.19, True), ("tuned", 2.19, False), ("paper", -2.19, False)],
    ids=["met", "violated", "met, in the paper's form"],
)
def test_gradient_of_forgotten_rows_is_sent_only_while_the_dual_uses_it(
    tmp_path: Path, form: str, gamma: float, zero: bool
) -> None:
    sent = fedora(tmp_path, gamma, form=form, primal_step=1e-6).sent_gradients
    assert sent is not None
    assert all(bool((each == 0).all()) is zero for each in sent.gradients.values())


@pytest.mark.parametrize(("gamma", "zero"), [(-2.19, True), (2.19, False)])
def test_gradients_of_several_messages_are_sent_only_while_the_dual_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gamma: float, zero: bool
) -> None:
    """Only all messages together tell whether the constraint holds, so they are read first."""
    losses: list[float] = []
    score = fedora_method._Iteration._score_loss

    def recorded(iteration: Any, batch: Any) -> Any:
        loss = score(iteration, batch)
        losses.append(loss.values.item())
        return loss

    monkeypatch.setattr(fedora_method._Iteration, "_score_loss", recorded)
    for name in ("one", "several"):
        (tmp_path / name).mkdir()
    one = fedora(tmp_path / "one", gamma, primal_step=1e-6)
    losses.clear()
    several = fedora(tmp_path / "several", gamma, pass_rows=8, primal_step=1e-6)
    assert len(losses) > len(several.iterations)
    assert {each == 0 for each in losses} == {zero}
    sent = several.sent_gradients
    assert sent is not None
    assert all(bool((each == 0).all()) is zero for each in sent.gradients.values())
    for own, other in zip(one.iterations, several.iterations, strict=True):
        assert own["forgetting"] == pytest.approx(other["forgetting"], rel=1e-5)
        assert own["multiplier"] == pytest.approx(other["multiplier"], rel=1e-4)


def test_counterfactual_policy_has_defaults_of_its_own() -> None:
    plan = FedoraSettings.model_validate({"policy": "counterfactual", "dual_step": 3.0})
    assert (plan.start, plan.dual_step, plan.max_multiplier) == ("original", 3.0, 10.0)
    assert (plan.iterations, plan.retain_share, plan.calibrate) == (None, None, False)
    assert plan.noise == 0.0
    assert plan.first_step(0.0005) == 0.002
    assert plan.first_step(0.002) == 0.004


def test_paper_form_has_the_paper_settings() -> None:
    plan = FedoraSettings.model_validate({"form": "paper", "iterations": 5})
    assert (plan.start, plan.primal, plan.anneal, plan.calibrate) == (
        "original", "plain", None, False,
    )  # fmt: skip
    assert plan.adaptive == AdaptiveStepSettings()
    assert plan.first_step(0.002) == 0.1


@pytest.mark.parametrize("key", ["iterations", "retain_share"])
def test_other_policies_need_the_number_of_iterations(key: str) -> None:
    with pytest.raises(ValueError, match="'iterations' and 'retain_share' may be absent only"):
        FedoraSettings.model_validate({"policy": "present", key: None})


@pytest.mark.parametrize(
    ("retained", "trained", "batch", "iterations", "sub_steps"),
    [
        (900, 32, 16, 12, 6),
        (36_000, 512, 512, 15, 6),
        (60_000, 32, 32, 64, 36),
        (10, 32, 8, 8, 1),
        (10, 6, 6, 8, 1),
        (2_000, 100, 32, 13, 6),
        (6_000, 100, 64, 19, 6),
    ],
)
def test_schedule_of_the_counterfactual_policy_follows_from_the_rows(
    retained: int, trained: int, batch: int, iterations: int, sub_steps: int
) -> None:
    """B leaves 64 sub-steps, K = ⌈1.2 n_r / (6 B)⌉ within 8 and 64, R = ⌈1.2 n_r / (K B)⌉."""
    plan = FedoraSettings.model_validate({"policy": "counterfactual"})
    found = Schedule.of(plan, retained, trained)
    assert found == Schedule(batch, iterations, sub_steps)


def test_noise_of_a_step_depends_on_the_rows_the_party_and_the_sub_step(tmp_path: Path) -> None:
    """So a replay draws the same noise, and the next request other noise."""
    draws: dict[str, list[int]] = {}
    for name, rows in {"first": 5, "again": 5, "other": 6}.items():
        (tmp_path / name).mkdir()
        with open_split_model(tmp_path / name) as (split_model, _):
            split_model.forget(split_model.rows.train[:rows])
            run = NetworkRun(split_model)
            draws[name] = [noise_draws(run, number)[0] for number in range(3)]
    assert draws["first"] == draws["again"]
    assert len({*draws["first"], *draws["other"]}) == 6


def test_noise_is_a_multiple_of_the_primal_step(tmp_path: Path) -> None:
    """With steps that are too small to learn, the noise alone moves the model."""
    for name in ("still", "moved"):
        (tmp_path / name).mkdir()
    still = fedora(tmp_path / "still", -2.19, primal_step=1e-9, noise=0.0)
    moved = fedora(tmp_path / "moved", -2.19, primal_step=1e-9, noise=1e6)
    changes = [each.iterations[0]["change"] for each in (still, moved)]
    assert changes[0] < 1e-6
    assert changes[1] > 1e-3


def counterfactual(folder: Path, *, learned: bool = True, **settings: Any) -> list[dict[str, Any]]:
    """The iterations of FedORA with counterfactual targets, from a trained model.

    ``learned``: whether the model was trained on D_u.
    """
    same = {"policy": "counterfactual", "epsilon": 1e-4, "primal_step": 1e-3, "utility_loss": 1.0}
    training = {"batch": 16, "learning_rate": 0.02, "epochs": 30}
    folder.mkdir()
    plan = {"fedora": same | settings}
    with open_split_model(folder, unlearning=plan, training=training) as (model, _):
        start_training(model, "original")
        run = NetworkRun(model, vfl_pb2.TRAIN)
        for epoch in range(1, 31 if learned else 1):
            train_epoch(run, vfl_pb2.TRAIN_ROWS, epoch)
        model.keep_copy("original", vfl_pb2.TRAIN)
        forget_some(model)
        for epoch in range(1, 1 if learned else 31):
            train_epoch(NetworkRun(model), vfl_pb2.RETAIN, epoch)
        return carry_out(vertical_method("fedora"), NetworkRun(model)).iterations


@pytest.mark.parametrize(("epsilon", "wanted"), [(0.3, None), (1e-9, -1e-3), (1e9, -0.2)])
def test_threshold_and_dual_step_are_relative_to_the_violation(
    tmp_path: Path, epsilon: float, wanted: float | None
) -> None:
    steps = counterfactual(tmp_path / "run", epsilon=epsilon, dual_step=0.8)
    first, largest = -steps[0]["forgetting"], 1e-3
    expected = -min(max(1e-3, 0.3 * first), 0.2) if wanted is None else wanted
    for each in steps:
        largest = max(largest, -each["forgetting"])
        assert each["threshold"] == pytest.approx(expected)
        bound = each["dual_bound"] or 1e9
        assert each["dual_step"] == pytest.approx(min(0.8 / largest, bound))


def test_constraint_allows_what_rows_that_were_never_learned_show(tmp_path: Path) -> None:
    """The divergence of a model that has learned nothing of D_u does not violate the constraint."""
    steps = counterfactual(tmp_path / "run", learned=False, epsilon=1e-9, primal_step=1e-6)
    assert steps[0]["threshold"] < -2e-3  # above the negligible divergence
    assert all(each["multiplier"] == 0 for each in steps)


def test_counterfactual_constraint_keeps_the_model_closer_to_its_targets(tmp_path: Path) -> None:
    on = counterfactual(tmp_path / "on", dual_step=3.0)
    off = counterfactual(tmp_path / "off", max_multiplier=1e-9)
    assert on[-1]["multiplier"] > 0
    assert -on[-1]["forgetting"] < 0.7 * -off[-1]["forgetting"]


def test_constraint_allows_what_steps_move_below_the_targets(tmp_path: Path) -> None:
    """Steps that are too large move rows to both sides of their targets; Ω must not count this."""
    steps = counterfactual(tmp_path / "run", epsilon=1e-9, dual_step=3.0, primal_step=0.05)
    assert steps[0]["threshold"] == pytest.approx(-1e-3)
    assert max(-each["forgetting"] for each in steps) > 2e-3
    assert min(each["threshold"] for each in steps) < -2e-3
    # The first violation is what the model remembers of D_u; afterwards Ω only falls.
    multipliers = [each["multiplier"] for each in steps]
    assert multipliers == sorted(multipliers, reverse=True)
    assert multipliers[1] < 0.5 * multipliers[0]
    assert not any(multipliers[2:])


def trained(folder: Path, **changes: Any) -> Any:
    """A trained model of three parties, which the counterfactual constraint can unlearn."""
    plan = {"policy": "counterfactual", "utility_loss": 1.0}
    training = {"batch": 16, "learning_rate": 0.02, "epochs": 5}
    return open_split_model(folder, unlearning={"fedora": plan}, training=training, **changes)


def train(split_model: SplitModel, epochs: int = 5) -> None:
    start_training(split_model, "original")
    run = NetworkRun(split_model, vfl_pb2.TRAIN)
    for epoch in range(1, epochs + 1):
        train_epoch(run, vfl_pb2.TRAIN_ROWS, epoch)
    split_model.keep_copy("original", vfl_pb2.TRAIN)


def test_request_for_all_validation_rows_is_carried_out(tmp_path: Path) -> None:
    with trained(tmp_path) as (split_model, _):
        train(split_model)
        rows = split_model.rows
        split_model.forget(np.union1d(rows.validation, rows.train[:10]))
        result = carry_out(vertical_method("fedora"), NetworkRun(split_model))
    assert result.stopped == "out of iterations"
    assert all(np.isfinite(each["forgetting"]) for each in result.iterations)


def with_outlier(name: str, identity: str) -> Callable[..., None]:
    """Write the data of the parties, with an extreme value in one row of the party ``name``."""

    def write(folder: Path, rows: int) -> None:
        write_data(folder, rows)
        path = folder / f"{name}.csv"
        lines = [line.split(",") for line in path.read_text().splitlines()]
        changed = [[each[0], "1e7", *each[2:]] if each[0] == identity else each for each in lines]
        path.write_text("\n".join(map(",".join, changed)) + "\n")

    return write


@pytest.mark.parametrize("name", ["hub", "left"])
def test_fedora_rolls_back_if_a_forgotten_row_makes_the_reference_diverge(
    tmp_path: Path, name: str
) -> None:
    """Preprocessing without the row makes its embedding exceed limits.magnitude."""
    warnings: list[str] = []
    with trained(tmp_path, write=with_outlier(name, "p12")) as (split_model, _):
        place = split_model.state.features.ids().index(b"p12")
        train(split_model)
        split_model.party.progress.warn = warnings.append  # type: ignore[method-assign]
        split_model.forget(np.union1d(split_model.rows.train[:10], [place]))
        run = NetworkRun(split_model)
        original = run.logits(vfl_pb2.VALIDATION)[0]
        result = carry_out(vertical_method("fedora"), run)
        after = run.logits(vfl_pb2.VALIDATION)[0]
    assert (result.stopped, result.iterations) == ("not finite", [])
    assert result.label == ("FedORA", "not carried out: not finite")
    assert len(warnings) == 1
    assert "its reference models diverged" in warnings[0]
    assert torch.equal(original, after)
