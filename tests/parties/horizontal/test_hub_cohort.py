"""Clients at the other ends of lines: the same figures as in one process, and drop-outs."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from clients import CLIENTS
from five_clients import (
    CONFIG,
    LOCAL_TASK,
    MASKS,
    MEMBERS,
    Dies,
    cohort,
    local,
    party_of,
    prepared,
    untouched,
)

from configs.federated_file import HorizontalConfig
from parties.common.errors import PolicyError
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.clusters import ClusterStore
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import Aim, GatePlan, LocalTask, LocalUpdate, Slots
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.local.rows import RowKind
from parties.horizontal.registry import network_training_plan, training_clusters
from parties.horizontal.requests import request_members
from parties.horizontal.server import FederatedServer
from parties.session.setup import StartOptions
from protocol.line import Line
from unlearning.horizontal.error_noise import ErrorNoisePlan


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[HorizontalConfig, StartOptions]:
    return prepared(tmp_path_factory.mktemp("wards"), CONFIG)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> tuple[HorizontalConfig, StartOptions]:
    """The same with secure aggregation."""
    text = CONFIG.replace("[settings.server]", MASKS + "[settings.server]")
    return prepared(tmp_path_factory.mktemp("masked"), text)


def test_over_lines_the_means_are_those_of_one_process(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots = {"model": initial_parameters(ready[0].agreement, "original")}
    with cohort(ready, [], untouched) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        scores = remote.evaluate(CLIENTS, "test", slots["model"])
    wanted = local(ready).mean_update(MEMBERS, LOCAL_TASK, slots)
    assert torch.equal(found.delta, wanted.delta)
    assert (found.rows, found.loss) == (wanted.rows, pytest.approx(wanted.loss))
    assert scores == local(ready).evaluate(CLIENTS, "test", slots["model"])


def test_forgotten_and_retained_rows_are_two_members_until_they_are_purged(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots = {"model": initial_parameters(ready[0].agreement, "original")}
    both = [Member(CLIENTS[0], "forgotten"), Member(CLIENTS[1], "retained")]
    told: list[str] = []
    with cohort(ready, told, untouched) as remote:
        remote.select_request("leaver")
        found = dict(remote.updates(both, LOCAL_TASK, slots))
        before = remote.evaluate(CLIENTS, "learn", slots["model"])
        purged = remote.purge()
        after = remote.evaluate(CLIENTS, "learn", slots["model"])
    assert [each.rows for each in found.values()] == [before[each.client].rows for each in both]
    assert purged[CLIENTS[0]] == [f"{before[CLIENTS[0]].rows} rows"]
    assert after[CLIENTS[0]].rows == 0
    assert after[CLIENTS[1]] == before[CLIENTS[1]]
    assert not [each for each in told if "left out" in each]


@pytest.mark.parametrize(
    "aim", ["classes", "gated", "error-maximising-noise", "error-minimising-noise"]
)
def test_over_lines_no_row_is_read_in_the_same_way(
    ready: tuple[HorizontalConfig, StartOptions], aim: Aim
) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    task = replace(
        LOCAL_TASK,
        aim=aim,
        gate=GatePlan(student_steps=1, classes=(0,), threshold=1.0),
        noise=ErrorNoisePlan(rows=2, steps=2),
    )
    slots = {"model": model, "teacher": initial_parameters(ready[0].agreement, "teacher")}
    with cohort(ready, [], untouched) as remote:
        found = dict(remote.updates(MEMBERS[:1], task, slots))
    wanted = dict(local(ready).updates(MEMBERS[:1], task, slots))
    assert torch.equal(found[MEMBERS[0]].delta, wanted[MEMBERS[0]].delta)
    assert found[MEMBERS[0]].delta.any()
    assert found[MEMBERS[0]].rows == wanted[MEMBERS[0]].rows


def test_a_server_in_clusters_carries_out_a_request(tmp_path: Path) -> None:
    """What Knot delivers is a training of the same clusters that never had the client."""
    text = CONFIG.replace("rounds = 3,", "rounds = 3, clusters = 2,")
    methods = 'unlearning = { method = "knot", compare = [] }\n\n[settings.server]'
    wards = prepared(tmp_path, text.replace("[settings.server]", methods))
    agreement, party = wards[0].agreement, party_of(wards, "server", [])
    with cohort(wards, [], untouched) as remote:
        server = FederatedServer(
            party, remote, RunJournal(party, federated_checkpoints(party), bytes(16))
        )
        told = server.run()["requests"][0]
    rows = {each["name"]: each for each in told["methods"]}
    assert list(rows) == ["original", "knot", "retrain"]
    assert rows["knot"]["guarantee"] == "exact"
    groups = [[n for n in group if n != "client-0"] for group in training_clusters(agreement)]
    never = ClusterStore(tmp_path / "never", tuple(map(tuple, groups)))
    round_plan, start = (
        network_training_plan(agreement, "original"),
        initial_parameters(agreement, "original"),
    )
    wanted = never.train(local(wards), start, round_plan, lambda *_: None)
    scores = local(wards).evaluate(CLIENTS[1:], "test", wanted)
    assert {n: each for n, each in rows["knot"]["scores"]["test"].items() if n in scores} == {
        n: asdict(each) for n, each in scores.items()
    }


def test_a_client_that_dies_costs_its_own_contribution_and_comes_back(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """It is killed before it says what it learned; the line after that is sound."""
    slots, told, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return Dies(line, 2) if name == CLIENTS[2] and lines.count(name) == 1 else line

    with cohort(ready, told, tap) as remote:
        first = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        while len(remote.evaluate(CLIENTS, "learn", slots["model"])) < 5:
            pass
        second = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    assert first.absent == (Member(CLIENTS[2]),)
    assert second.absent == ()
    assert any("client-2 is left out until it reconnects" in each for each in told)
    others = [each for each in MEMBERS if each.client != CLIENTS[2]]
    assert torch.equal(first.delta, local(ready).mean_update(others, LOCAL_TASK, slots).delta)
    assert torch.equal(second.delta, local(ready).mean_update(MEMBERS, LOCAL_TASK, slots).delta)


def test_orders_that_concern_all_wait_for_a_client_that_comes_back(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """Its line breaks as it says that it knows which request is meant, and that it has purged."""
    slots, told, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        frames = {1: 2, 2: 5}.get(lines.count(name)) if name == CLIENTS[0] else None
        return line if frames is None else Dies(line, frames)

    with cohort(ready, told, tap) as remote:
        remote.select_request("leaver")
        gone = remote.evaluate(CLIENTS, "forgotten", slots["model"])
        purged = remote.purge()
        left = remote.evaluate(CLIENTS, "learn", slots["model"])
    assert lines.count(CLIENTS[0]) == 3
    assert gone[CLIENTS[0]].rows
    assert purged[CLIENTS[0]] == [f"{gone[CLIENTS[0]].rows} rows"]
    assert left[CLIENTS[0]].rows == 0


def test_who_leaves_is_asked_again_when_it_is_lost_as_it_says_so(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """A request that passed over the client that leaves would be told as carried out."""
    model, lines = initial_parameters(ready[0].agreement, "original"), list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return Dies(line, 3) if name == CLIENTS[0] and lines.count(name) == 1 else line

    with cohort(ready, [], tap) as remote:
        remote.select_request("leaver")
        leaving, staying = request_members(remote, "leaver", model)
    assert leaving == [Member(CLIENTS[0], "forgotten")]
    assert [each.client for each in staying] == CLIENTS[1:]


def test_a_change_that_is_none_of_the_model_costs_its_client_the_round(
    ready: tuple[HorizontalConfig, StartOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, told, sound = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        ClientStore.run_task,
    )

    def short(kept: ClientStore, kind: RowKind, task: LocalTask, given: Slots) -> LocalUpdate:
        found, name = sound(kept, kind, task, given), kept._party.name
        return replace(found, delta=found.delta[:1]) if name == CLIENTS[2] else found

    monkeypatch.setattr(ClientStore, "run_task", short)
    with cohort(ready, told, untouched) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    assert found.absent == (Member(CLIENTS[2]),)
    assert any("sent an update of 1 numbers for a model of" in each for each in told)


def test_under_masks_the_mean_is_the_same_and_nobody_is_seen_alone(
    ready: tuple[HorizontalConfig, StartOptions], masked: tuple[HorizontalConfig, StartOptions]
) -> None:
    slots, told = {"model": initial_parameters(ready[0].agreement, "original")}, list[str]()
    with cohort(masked, told, untouched, least=3) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        with pytest.raises(PolicyError, match="single updates are hidden"):
            next(remote.updates(MEMBERS, LOCAL_TASK, slots))
        with pytest.raises(PolicyError, match="2 clients are connected, and a sum needs 3"):
            remote.mean_update(MEMBERS[:2], LOCAL_TASK, slots)
    wanted = local(ready).mean_update(MEMBERS, LOCAL_TASK, slots)
    assert torch.allclose(found.delta, wanted.delta, atol=1e-9, rtol=0)
    assert (found.rows, found.loss) == (wanted.rows, pytest.approx(wanted.loss))
    assert not [each for each in told if "left out" in each]


@pytest.mark.parametrize("frames", [2, 3, 4])
def test_who_dies_in_a_sum_costs_its_own_part(
    ready: tuple[HorizontalConfig, StartOptions],
    masked: tuple[HorizontalConfig, StartOptions],
    frames: int,
) -> None:
    """Before it says its keys, before it deals shares, before its masked vector."""
    slots, told, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return Dies(line, frames) if name == CLIENTS[2] and lines.count(name) == 1 else line

    with cohort(masked, told, tap, least=3) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    others = [each for each in MEMBERS if each.client != CLIENTS[2]]
    wanted = local(ready).mean_update(others, LOCAL_TASK, slots)
    assert found.absent == (Member(CLIENTS[2]),)
    assert torch.allclose(found.delta, wanted.delta, atol=1e-9, rtol=0)
    assert found.rows == wanted.rows


def test_a_server_that_leaves_the_masks_out_learns_nothing(
    masked: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots, told = {"model": initial_parameters(masked[0].agreement, "original")}, list[str]()
    with cohort(masked, told, untouched) as remote:
        assert not dict(remote.updates(MEMBERS[:1], LOCAL_TASK, slots))
    assert any("requests a single update" in each for each in told)
