"""Rounds and weighted means, also with clients that do not reply."""

from pathlib import Path

import numpy as np
import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, fresh, trained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_cohort import LocalCohort

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member, WeightedMean, pseudo_gradients
from parties.horizontal.engine.history import RoundStore
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.local.local_task import LocalTask, LocalUpdate

ALL = [Member(name) for name in CLIENTS]


@pytest.mark.parametrize(("held", "block"), [(1, 7), (21, 3), (10_000, 4)])
@given(rows=st.lists(st.integers(1, 10_000), min_size=1, max_size=20), seed=st.integers(0, 99))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mean_is_weighted_by_rows_and_exact(
    monkeypatch: pytest.MonkeyPatch, held: int, block: int, rows: list[int], seed: int
) -> None:
    """However many updates are added together, and in blocks of any size."""
    monkeypatch.setattr("parties.horizontal.engine.cohort.HELD", held)
    monkeypatch.setattr("parties.horizontal.engine.cohort.BLOCK", block)
    generator = np.random.default_rng(seed)
    changes = generator.normal(size=(len(rows), 7)).astype(np.float32)
    total, members = WeightedMean(), [Member(f"c{k}") for k in range(len(rows))]
    for member, change, count in zip(members, changes, rows, strict=True):
        total.add(member, LocalUpdate(torch.from_numpy(change), count, 1.0, 1))
    expected = np.average(changes.astype(np.float64), axis=0, weights=rows)
    mean = total.result(members, 1.0)
    np.testing.assert_allclose(mean.delta.numpy(), expected, atol=1e-12, rtol=0)
    assert (mean.rows, mean.loss) == (sum(rows), pytest.approx(1.0))


def test_round_with_quorum_reports_missing_clients() -> None:
    def present(member: Member, task: LocalTask) -> bool:
        return not (member.client == CLIENTS[1] and task.stream == "train 1")

    cohort, missing = LocalCohort(client_tasks(), 0.8, present), []
    round_plan = RoundPlan(LOCAL_TASK, 3)
    run_rounds(cohort, fresh("o"), ALL, round_plan, lambda each: missing.append(each.mean.absent))
    assert missing == [(), (Member(CLIENTS[1]),), ()]


def test_quorum_is_not_affected_by_rounding() -> None:
    """In floats, 0.56 times 25 is slightly more than 14."""
    total, members = WeightedMean(), [Member(f"c{k}") for k in range(25)]
    for member in members[:14]:
        total.add(member, LocalUpdate(torch.ones(2), 1, 0.0, 1))
    assert len(total.result(members, 0.56).absent) == 11
    with pytest.raises(PolicyError, match="14 of 25 clients replied"):
        total.result(members, 0.57)


def test_round_without_quorum_stops_the_run() -> None:
    cohort = LocalCohort(client_tasks(), 1.0, lambda member, _: member.client != CLIENTS[1])
    with pytest.raises(PolicyError, match=r"4 of 5 clients replied.*missing: client-1"):
        run_rounds(cohort, fresh("o"), ALL, RoundPlan(LOCAL_TASK, 1), lambda *_: None)


def test_rounds_select_a_share_of_clients_and_eventually_all() -> None:
    round_plan = RoundPlan(LOCAL_TASK, 10, share=0.4)
    chosen = [round_plan.select_members(ALL, number) for number in range(10)]
    assert {len(each) for each in chosen} == {2}
    assert {member for each in chosen for member in each} == set(ALL)
    assert chosen == [round_plan.select_members(ALL, number) for number in range(10)]


def test_learning_rate_decays_and_streams_differ_by_round() -> None:
    round_plan = RoundPlan(LOCAL_TASK, 3, decay=0.5)
    assert [round_plan.task_at(n).learning_rate for n in range(3)] == pytest.approx(
        [0.1, 0.05, 0.025]
    )
    assert len({round_plan.task_at(n).stream for n in range(3)}) == 3


def test_pseudo_gradients_times_rate_are_the_updates() -> None:
    updates = dict(LocalCohort(client_tasks()).updates(ALL, LOCAL_TASK, {"model": fresh("o")}))
    deltas = -LOCAL_TASK.learning_rate * pseudo_gradients(updates, LOCAL_TASK)
    assert torch.allclose(deltas, torch.stack([each.delta for each in updates.values()]), atol=1e-7)


def test_history_stores_some_rounds_with_all_updates(tmp_path: Path) -> None:
    history, cohort = RoundStore(tmp_path / "history", 2), LocalCohort(client_tasks())
    model = run_rounds(
        cohort, fresh("original"), ALL, RoundPlan(LOCAL_TASK, 5), lambda *_: None, history
    )
    assert torch.equal(model, trained(rounds=5))
    assert len(history) == 3
    start, updates = next(iter(history.rounds()))
    assert torch.equal(start, fresh("original"))
    expected_updates = dict(
        cohort.updates(ALL, RoundPlan(LOCAL_TASK, 5).task_at(0), {"model": start})
    )
    assert {m: each.rows for m, each in updates.items()} == {
        m: e.rows for m, e in expected_updates.items()
    }
    for member, each in updates.items():
        assert torch.equal(each.delta, expected_updates[member].delta)
    history.forget([ALL[0].client])
    for start, updates in history.rounds():
        assert len(start) == len(fresh("original"))
        assert set(updates) == set(ALL[1:])
    history.clear()
    assert not len(history)
