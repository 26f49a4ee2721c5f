"""A cohort over memory lines: the same results as in one process, and drop-outs."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic

import pytest
import torch
from clients import CLIENTS
from five_clients import (
    CONFIG,
    LOCAL_TASK,
    MASKS,
    MEMBERS,
    BreakingLine,
    connected_cohort,
    local_cohort,
    party_of,
    prepare,
    unchanged_line,
)

from configs.horizontal import HorizontalConfig
from parties.common.errors import PolicyError
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.clusters import ClusterStore
from parties.horizontal.engine.cohort import AbsentClientError, Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.local.local_task import Aim, GatePlan, LocalTask, LocalUpdate, Slots
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.local.rows import RowKind
from parties.horizontal.registry import training_clusters
from parties.horizontal.requests import request_members
from parties.horizontal.server import FederatedServer
from parties.session.setup import StartOptions
from protocol.line import Line
from unlearning.horizontal.error_noise import ErrorNoisePlan


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[HorizontalConfig, StartOptions]:
    return prepare(tmp_path_factory.mktemp("wards"), CONFIG)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> tuple[HorizontalConfig, StartOptions]:
    """Return the same run with secure aggregation."""
    text = CONFIG.replace("[settings.server]", MASKS + "[settings.server]")
    return prepare(tmp_path_factory.mktemp("masked"), text)


def test_mean_and_scores_equal_those_of_one_process(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots = {"model": initial_parameters(ready[0].agreement, "original")}
    with connected_cohort(ready, [], unchanged_line) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        scores = remote.evaluate(CLIENTS, "test", slots["model"])
    expected = local_cohort(ready).mean_update(MEMBERS, LOCAL_TASK, slots)
    assert torch.equal(mean.delta, expected.delta)
    assert (mean.rows, mean.loss) == (expected.rows, pytest.approx(expected.loss))
    assert scores == local_cohort(ready).evaluate(CLIENTS, "test", slots["model"])


def test_members_with_forgotten_and_retained_rows_until_the_purge(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots = {"model": initial_parameters(ready[0].agreement, "original")}
    both = [Member(CLIENTS[0], "forgotten"), Member(CLIENTS[1], "retained")]
    warnings: list[str] = []
    with connected_cohort(ready, warnings, unchanged_line) as remote:
        remote.select_request("leaver")
        updates = dict(remote.updates(both, LOCAL_TASK, slots))
        before = remote.evaluate(CLIENTS, "learn", slots["model"])
        purged = remote.purge()
        after = remote.evaluate(CLIENTS, "learn", slots["model"])
    assert [each.rows for each in updates.values()] == [before[each.client].rows for each in both]
    assert purged[CLIENTS[0]] == [f"{before[CLIENTS[0]].rows} rows"]
    assert after[CLIENTS[0]].rows == 0
    assert after[CLIENTS[1]] == before[CLIENTS[1]]
    assert not [each for each in warnings if "left out" in each]


@pytest.mark.parametrize("aim", ["classes", "gated", "error-minimising-noise"])
def test_data_free_updates_equal_those_of_one_process(
    ready: tuple[HorizontalConfig, StartOptions], aim: Aim
) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    task = replace(
        LOCAL_TASK,
        aim=aim,
        gate=GatePlan(student_steps=1, classes=(0,), threshold=1.0),
        noise=ErrorNoisePlan(rows=2, steps=2),
    )
    teacher = initial_parameters(ready[0].agreement, "teacher")
    slots = {"model": model, "teacher": teacher}
    with connected_cohort(ready, [], unchanged_line, task=task) as remote:
        updates = dict(remote.updates(MEMBERS[:1], task, slots))
    expected = dict(local_cohort(ready).updates(MEMBERS[:1], task, slots))
    assert torch.equal(updates[MEMBERS[0]].delta, expected[MEMBERS[0]].delta)
    assert updates[MEMBERS[0]].delta.any()
    assert updates[MEMBERS[0]].rows == expected[MEMBERS[0]].rows


def test_server_with_clusters_executes_a_request(tmp_path: Path) -> None:
    """Knot returns the model of a training of the same clusters without the client."""
    text = CONFIG.replace("rounds = 3,", "rounds = 3, clusters = 2,")
    methods = 'unlearning = { method = "knot", compare = [] }\n\n[settings.server]'
    wards = prepare(tmp_path, text.replace("[settings.server]", methods))
    agreement, party = wards[0].agreement, party_of(wards, "server", [])
    with connected_cohort(wards, [], unchanged_line) as remote:
        server = FederatedServer(
            party, remote, RunJournal(party, federated_checkpoints(party), bytes(16))
        )
        request = server.run()["requests"][0]
    rows = {each["name"]: each for each in request["methods"]}
    assert list(rows) == ["original", "knot", "retrain"]
    assert rows["knot"]["guarantee"] == "exact"
    groups = [[n for n in group if n != "client-0"] for group in training_clusters(agreement)]
    without_client = ClusterStore(tmp_path / "never", tuple(map(tuple, groups)))
    round_plan, start = (
        network_training_plan(agreement, "original"),
        initial_parameters(agreement, "original"),
    )
    expected = without_client.train(local_cohort(wards), start, round_plan, lambda *_: None)
    scores = local_cohort(wards).evaluate(CLIENTS[1:], "test", expected)
    assert {n: each for n, each in rows["knot"]["scores"]["test"].items() if n in scores} == {
        n: json.loads(json.dumps(asdict(each))) for n, each in scores.items()
    }


def test_lost_client_misses_one_round_and_reconnects(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """The first line of the client breaks before its update; its second line works."""
    slots, warnings, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return BreakingLine(line, 2) if name == CLIENTS[2] and lines.count(name) == 1 else line

    with connected_cohort(ready, warnings, tap) as remote:
        first = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        while len(remote.evaluate(CLIENTS, "learn", slots["model"])) < 5:
            pass
        second = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    assert first.absent == (Member(CLIENTS[2]),)
    assert second.absent == ()
    assert any("client-2 is left out until it reconnects" in each for each in warnings)
    others = [each for each in MEMBERS if each.client != CLIENTS[2]]
    assert torch.equal(
        first.delta, local_cohort(ready).mean_update(others, LOCAL_TASK, slots).delta
    )
    assert torch.equal(
        second.delta, local_cohort(ready).mean_update(MEMBERS, LOCAL_TASK, slots).delta
    )


def test_client_that_missed_the_start_of_a_branch_keeps_its_personal_parameters(
    tmp_path: Path,
) -> None:
    """The client is lost before a method's branch, and returns on that of its recovery."""
    text = CONFIG.replace("limits =", 'personal = { kind = "fedper" }\nlimits =')
    personal, lines = prepare(tmp_path, text), list[BreakingLine]()
    slots = {"model": initial_parameters(personal[0].agreement, "original")}
    trained, method, recovery = (
        f"{'0' * 32} {name}" for name in ("training", "method", "recovery")
    )

    def tap(name: str, line: Line) -> Line:
        if name == CLIENTS[2]:
            lines.append(BreakingLine(line, 10**6))
            return lines[-1]
        return line

    def scores(*, breaks: bool) -> object:
        lines.clear()
        with connected_cohort(personal, [], tap) as remote:
            remote.switch_branch(trained, None)
            remote.mean_update(MEMBERS, LOCAL_TASK, slots)
            if breaks:
                lines[0].break_now()
                assert CLIENTS[2] not in remote.evaluate(CLIENTS, "learn", slots["model"])
            remote.switch_branch(method, trained)
            remote.switch_branch(recovery, method)
            while len(found := remote.evaluate(CLIENTS, "learn", slots["model"])) < 5:
                pass
            remote.switch_branch(f"{'0' * 32} fresh", None)
            fresh = remote.evaluate(CLIENTS, "learn", slots["model"])
        assert found[CLIENTS[2]] != fresh[CLIENTS[2]]
        return found

    assert scores(breaks=True) == scores(breaks=False)
    assert len(lines) == 1


def test_commands_to_all_clients_wait_for_a_lost_client(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """The line breaks at the reply to the selected request, and again at the reply to the purge."""
    slots, warnings, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        frames = {1: 2, 2: 5}.get(lines.count(name)) if name == CLIENTS[0] else None
        return line if frames is None else BreakingLine(line, frames)

    with connected_cohort(ready, warnings, tap) as remote:
        remote.select_request("leaver")
        forgotten = remote.evaluate(CLIENTS, "forgotten", slots["model"])
        purged = remote.purge()
        left = remote.evaluate(CLIENTS, "learn", slots["model"])
    assert lines.count(CLIENTS[0]) == 3
    assert forgotten[CLIENTS[0]].rows
    assert purged[CLIENTS[0]] == [f"{forgotten[CLIENTS[0]].rows} rows"]
    assert left[CLIENTS[0]].rows == 0


def test_leaving_client_lost_at_its_reply_is_asked_again(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    """A request without the leaving client would be reported as executed."""
    model, lines = initial_parameters(ready[0].agreement, "original"), list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return BreakingLine(line, 3) if name == CLIENTS[0] and lines.count(name) == 1 else line

    with connected_cohort(ready, [], tap) as remote:
        remote.select_request("leaver")
        leaving, remaining = request_members(remote, "leaver", model)
    assert leaving == [Member(CLIENTS[0], "forgotten")]
    assert [each.client for each in remaining] == CLIENTS[1:]


def test_update_of_another_length_is_left_out(
    ready: tuple[HorizontalConfig, StartOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, warnings, run_task = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        ClientStore.run_task,
    )

    def truncated_update(
        store: ClientStore, kind: RowKind, task: LocalTask, given: Slots
    ) -> LocalUpdate:
        update, name = run_task(store, kind, task, given), store._party.name
        return replace(update, delta=update.delta[:1]) if name == CLIENTS[2] else update

    monkeypatch.setattr(ClientStore, "run_task", truncated_update)
    with connected_cohort(ready, warnings, unchanged_line) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    assert mean.absent == (Member(CLIENTS[2]),)
    assert any("sent an update of 1 elements; expected" in each for each in warnings)


@pytest.mark.parametrize("frames", [2, 3, 4])
def test_a_lost_client_that_the_quorum_needs_repeats_its_task(
    ready: tuple[HorizontalConfig, StartOptions], frames: int
) -> None:
    """The line breaks before the client's update or its metrics; the client connects again."""
    slots, lines = {"model": initial_parameters(ready[0].agreement, "original")}, list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return BreakingLine(line, frames) if name == CLIENTS[2] and lines.count(name) == 1 else line

    with connected_cohort(ready, [], tap, quorum=1.0) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        scores = remote.evaluate(CLIENTS, "test", slots["model"])
    expected = local_cohort(ready).mean_update(MEMBERS, LOCAL_TASK, slots)
    assert lines.count(CLIENTS[2]) == 2
    assert torch.equal(mean.delta, expected.delta)
    assert mean.absent == ()
    assert scores == local_cohort(ready).evaluate(CLIENTS, "test", slots["model"])


def test_a_client_that_is_late_once_is_not_waited_for_again(
    ready: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots, lines = {"model": initial_parameters(ready[0].agreement, "original")}, list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return (
            BreakingLine(line, 2 if lines.count(name) == 1 else 0) if name == CLIENTS[2] else line
        )

    with connected_cohort(ready, [], tap, quorum=1.0, rejoin_timeout=1.0) as remote:
        with pytest.raises(PolicyError, match="only 4 of 5 clients replied"):
            remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        started = monotonic()
        scores = remote.evaluate(CLIENTS, "test", slots["model"])
        assert monotonic() - started < 1.0
    assert set(scores) == {*CLIENTS} - {CLIENTS[2]}


def test_masked_mean_equals_local_mean_and_single_updates_are_hidden(
    ready: tuple[HorizontalConfig, StartOptions], masked: tuple[HorizontalConfig, StartOptions]
) -> None:
    slots, warnings = {"model": initial_parameters(ready[0].agreement, "original")}, list[str]()
    with connected_cohort(masked, warnings, unchanged_line, min_contributors=3) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        with pytest.raises(PolicyError, match="needs the update of each client"):
            next(remote.updates(MEMBERS, LOCAL_TASK, slots))
        with pytest.raises(PolicyError, match="a sum has 2 clients with rows, but needs"):
            remote.mean_update(MEMBERS[:2], LOCAL_TASK, slots)
    expected = local_cohort(ready).mean_update(MEMBERS, LOCAL_TASK, slots)
    assert torch.allclose(mean.delta, expected.delta, atol=1e-9, rtol=0)
    assert (mean.rows, mean.loss) == (expected.rows, pytest.approx(expected.loss))
    assert not [each for each in warnings if "left out" in each]


@pytest.mark.parametrize("frames", [2, 3, 4])
def test_client_lost_in_a_masked_sum_misses_only_its_own_update(
    ready: tuple[HorizontalConfig, StartOptions],
    masked: tuple[HorizontalConfig, StartOptions],
    frames: int,
) -> None:
    """The line breaks before the public keys, the shares or the masked vector of the client."""
    slots, warnings, lines = (
        {"model": initial_parameters(ready[0].agreement, "original")},
        list[str](),
        list[str](),
    )

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return BreakingLine(line, frames) if name == CLIENTS[2] and lines.count(name) == 1 else line

    with connected_cohort(masked, warnings, tap, min_contributors=3) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    others = [each for each in MEMBERS if each.client != CLIENTS[2]]
    expected = local_cohort(ready).mean_update(others, LOCAL_TASK, slots)
    assert mean.absent == (Member(CLIENTS[2]),)
    assert torch.allclose(mean.delta, expected.delta, atol=1e-9, rtol=0)
    assert mean.rows == expected.rows


def test_clients_stay_when_a_sum_lacks_a_client_that_it_needs(
    ready: tuple[HorizontalConfig, StartOptions], masked: tuple[HorizontalConfig, StartOptions]
) -> None:
    """No client is asked to reveal shares, which it would have to refuse."""
    slots, lines = {"model": initial_parameters(ready[0].agreement, "original")}, list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return (
            BreakingLine(line, 4 if lines.count(name) == 1 else 0) if name == CLIENTS[2] else line
        )

    others = [each for each in MEMBERS if each.client != CLIENTS[2]]
    options = {"min_contributors": 3, "quorum": 1.0, "rejoin_timeout": 1.0}
    with connected_cohort(masked, [], tap, **options) as remote:
        with pytest.raises(AbsentClientError, match=r"only 4 of 5 .* missing: client-2"):
            remote.mean_update(MEMBERS, LOCAL_TASK, slots)
        mean = remote.mean_update(others, LOCAL_TASK, slots)
        with pytest.raises(AbsentClientError, match=r"4 clients are connected.*missing: client-2"):
            remote.mean_update(MEMBERS, LOCAL_TASK, slots)
    expected = local_cohort(ready).mean_update(others, LOCAL_TASK, slots)
    assert torch.allclose(mean.delta, expected.delta, atol=1e-9, rtol=0)


def test_clients_refuse_to_send_updates_without_masks(
    masked: tuple[HorizontalConfig, StartOptions],
) -> None:
    slots, warnings = {"model": initial_parameters(masked[0].agreement, "original")}, list[str]()
    with connected_cohort(masked, warnings, unchanged_line, rejoin_timeout=0.0) as remote:
        assert not dict(remote.updates(MEMBERS[:1], LOCAL_TASK, slots))
    assert any("requests the update of one client" in each for each in warnings)
