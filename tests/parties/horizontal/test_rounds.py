"""Rounds and means: by hand, with clients that do not answer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, fresh, trained
from hypothesis import given
from hypothesis import strategies as st
from local_cohort import LocalCohort

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member, WeightedMean, pseudo_gradients
from parties.horizontal.engine.history import RoundStore
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.local.local_task import LocalTask, LocalUpdate

ALL = [Member(name) for name in CLIENTS]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=20), st.integers(0, 99))
def test_a_mean_is_by_rows_and_exact(rows: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    changes = generator.normal(size=(len(rows), 7)).astype(np.float32)
    total, members = WeightedMean(), [Member(f"c{k}") for k in range(len(rows))]
    for member, change, count in zip(members, changes, rows, strict=True):
        total.add(member, LocalUpdate(torch.from_numpy(change), count, 1.0, 1))
    wanted = np.average(changes.astype(np.float64), axis=0, weights=rows)
    found = total.result(members, 1.0)
    np.testing.assert_allclose(found.delta.numpy(), wanted, atol=1e-12, rtol=0)
    assert (found.rows, found.loss) == (sum(rows), pytest.approx(1.0))


def test_a_round_goes_on_with_its_quorum_and_names_who_was_missing() -> None:
    def present(member: Member, task: LocalTask) -> bool:
        return not (member.client == CLIENTS[1] and task.stream == "train 1")

    cohort, missing = LocalCohort(client_tasks(), 0.8, present), []
    round_plan = RoundPlan(LOCAL_TASK, 3)
    run_rounds(cohort, fresh("o"), ALL, round_plan, lambda each: missing.append(each.mean.absent))
    assert missing == [(), (Member(CLIENTS[1]),), ()]


def test_a_quorum_that_no_float_has_exactly_is_met() -> None:
    """0.56 times 25 is a little more than 14 in floats."""
    total, members = WeightedMean(), [Member(f"c{k}") for k in range(25)]
    for member in members[:14]:
        total.add(member, LocalUpdate(torch.ones(2), 1, 0.0, 1))
    assert len(total.result(members, 0.56).absent) == 11
    with pytest.raises(PolicyError, match="14 of 25 clients replied"):
        total.result(members, 0.57)


def test_a_round_without_its_quorum_stops_the_run() -> None:
    cohort = LocalCohort(client_tasks(), 1.0, lambda member, _: member.client != CLIENTS[1])
    with pytest.raises(PolicyError, match=r"4 of 5 clients replied.*missing: client-1"):
        run_rounds(cohort, fresh("o"), ALL, RoundPlan(LOCAL_TASK, 1), lambda *_: None)


def test_a_share_of_the_clients_takes_part_and_all_do_in_time() -> None:
    round_plan = RoundPlan(LOCAL_TASK, 10, share=0.4)
    chosen = [round_plan.select_members(ALL, number) for number in range(10)]
    assert {len(each) for each in chosen} == {2}
    assert {member for each in chosen for member in each} == set(ALL)
    assert chosen == [round_plan.select_members(ALL, number) for number in range(10)]


def test_the_learning_rate_decays_and_every_round_has_its_own_order() -> None:
    round_plan = RoundPlan(LOCAL_TASK, 3, decay=0.5)
    assert [round_plan.task_at(n).learning_rate for n in range(3)] == pytest.approx(
        [0.1, 0.05, 0.025]
    )
    assert len({round_plan.task_at(n).stream for n in range(3)}) == 3


def test_pseudo_gradients_lead_back_to_the_clients_models() -> None:
    found = dict(LocalCohort(client_tasks()).updates(ALL, LOCAL_TASK, {"model": fresh("o")}))
    back = -LOCAL_TASK.learning_rate * pseudo_gradients(found, LOCAL_TASK)
    assert torch.allclose(back, torch.stack([each.delta for each in found.values()]), atol=1e-7)


def test_some_rounds_are_kept_with_every_client_s_change(tmp_path: Path) -> None:
    kept, cohort = RoundStore(tmp_path / "history", 2), LocalCohort(client_tasks())
    with_it = run_rounds(
        cohort, fresh("original"), ALL, RoundPlan(LOCAL_TASK, 5), lambda *_: None, kept
    )
    assert torch.equal(with_it, trained(rounds=5))
    assert len(kept) == 3
    began, found = next(iter(kept.rounds()))
    assert torch.equal(began, fresh("original"))
    plain = dict(cohort.updates(ALL, RoundPlan(LOCAL_TASK, 5).task_at(0), {"model": began}))
    assert {m: each.rows for m, each in found.items()} == {m: e.rows for m, e in plain.items()}
    for member, each in found.items():
        assert torch.equal(each.delta, plain[member].delta)
    kept.forget([ALL[0].client])
    for began, found in kept.rounds():
        assert len(began) == len(fresh("original"))
        assert set(found) == set(ALL[1:])
    kept.clear()
    assert not len(kept)
