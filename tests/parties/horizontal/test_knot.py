"""Knot: clusters train separately, and only the cluster of the leaving client trains again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, context, fresh, trained
from hypothesis import given
from hypothesis import strategies as st
from local_cohort import LocalCohort
from local_run import unlearned_model
from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.clusters import ClusterStore, assign_clusters
from parties.horizontal.engine.cohort import MeanUpdate, Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask, Slots
from parties.horizontal.methods.knot import Knot
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.unlearn import unlearn
from parties.horizontal.requests import RequestRunner

GROUPS = (tuple(CLIENTS[:3]), tuple(CLIENTS[3:]))
PLAN = RoundPlan(LOCAL_TASK, 3)
FEW = RoundPlan(LOCAL_TASK, 9, share=0.3)  # one client of three per round


class RecordingCohort(LocalCohort):
    """Records the stream and the member of every call."""

    def __init__(self, forgotten: int = 0) -> None:
        super().__init__(client_tasks(forgotten=forgotten))
        self.calls: list[tuple[str, Member]] = []

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        self.calls += [(task.stream, each) for each in members]
        return super().mean_update(members, task, slots)

    @property
    def names(self) -> set[str]:
        return {each.client for _, each in self.calls}


def trained_clusters(
    folder: Path, round_plan: RoundPlan = PLAN, groups: tuple[tuple[str, ...], ...] = GROUPS
) -> tuple[ClusterStore, Tensor]:
    clusters = ClusterStore(folder / "clusters", groups)
    return clusters, clusters.train(
        RecordingCohort(), fresh("original"), round_plan, lambda *_: None
    )


def leaving_request(
    clusters: ClusterStore | None,
    leaving: Iterable[str],
    rounds: list[RoundRecord],
    cohort: RecordingCohort | None = None,
) -> HorizontalRun:
    leaving = list(leaving)
    return replace(
        context(rounds), cohort=cohort or RecordingCohort(), clusters=clusters,
        leaving=[Member(name, "forgotten") for name in leaving],
        remaining=[Member(name, "retained") for name in CLIENTS if name not in leaving],
    )  # fmt: skip


def model_without(folder: Path, leaving: Iterable[str], round_plan: RoundPlan = PLAN) -> Tensor:
    """Return the model of the same clusters trained without these clients."""
    groups = tuple(tuple(name for name in group if name not in leaving) for group in GROUPS)
    return trained_clusters(folder / "never", round_plan, groups)[1]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 9))
def test_clusters_are_even_and_independent_of_the_order(
    count: int, clusters: int, seed: int
) -> None:
    names = [f"c{number}" for number in range(count)]
    groups = assign_clusters(names, clusters, seed)
    assert sorted(name for group in groups for name in group) == sorted(names)
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    assert groups == assign_clusters(names[::-1], clusters, seed)


def test_clusters_depend_on_the_seed() -> None:
    assert len({assign_clusters(CLIENTS, 2, seed) for seed in range(9)}) > 3


def test_model_is_the_mean_of_separately_trained_clusters(tmp_path: Path) -> None:
    clusters, model = trained_clusters(tmp_path)
    parts = [trained_clusters(tmp_path / group[0], groups=(group,))[1] for group in GROUPS]
    assert torch.equal(model, (parts[0] + parts[1]) / 2)
    assert [[s.number for s in history.snapshots] for _, history in clusters] == [[0], [0]]
    assert torch.equal(
        trained_clusters(tmp_path / "one", RoundPlan(LOCAL_TASK, 15), (tuple(CLIENTS),))[1],
        trained(),
    )


@pytest.mark.parametrize("leaving", [CLIENTS[:1], CLIENTS[1:2], [CLIENTS[0], CLIENTS[4]]])
def test_model_equals_training_without_the_clients(tmp_path: Path, leaving: list[str]) -> None:
    clusters, original = trained_clusters(tmp_path)
    model = unlearned_model(Knot(PLAN), leaving_request(clusters, leaving, []))
    assert torch.equal(model, model_without(tmp_path, leaving))
    assert not torch.equal(model, original)


def test_only_the_client_s_cluster_trains_again(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)
    before, cohort = (
        (tmp_path / "clusters" / "0001.safetensors").stat().st_mtime_ns,
        RecordingCohort(),
    )
    rounds: list[RoundRecord] = []
    unlearned_model(Knot(PLAN), leaving_request(clusters, CLIENTS[:1], rounds, cohort))
    assert cohort.names == {CLIENTS[1], CLIENTS[2]}
    assert [each.number for each in rounds] == [0, 1, 2]
    assert (tmp_path / "clusters" / "0001.safetensors").stat().st_mtime_ns == before


def first_rounds() -> dict[str, int]:
    """Return the first round of each client of the first cluster."""
    members = [Member(name) for name in GROUPS[0]]
    drawn = [FEW.select_members(members, number) for number in range(FEW.rounds)]
    return {
        each.client: min(n for n, chosen in enumerate(drawn) if each in chosen) for each in members
    }


def test_training_restarts_at_the_client_s_first_round(tmp_path: Path) -> None:
    order = sorted(first_rounds(), key=lambda name: first_rounds()[name])
    last, number = order[-1], first_rounds()[order[-1]]
    assert number > 1
    clusters, _ = trained_clusters(tmp_path, FEW)
    before = next(iter(clusters))[1]
    rounds, cohort = list[RoundRecord](), RecordingCohort()
    unlearned_model(Knot(FEW), leaving_request(clusters, [last], rounds, cohort))
    assert [each.number for each in rounds] == list(range(number, FEW.rounds))
    after = next(iter(clusters))[1]
    assert last not in cohort.names
    expected = [each for each in before.snapshots if each.number < number]
    assert [(s.number, s.clients) for s in after.snapshots] == [
        (s.number, s.clients) for s in expected
    ]
    assert all(
        torch.equal(a.model, b.model) for a, b in zip(after.snapshots, expected, strict=True)
    )


def test_client_that_was_never_selected_changes_nothing(tmp_path: Path) -> None:
    one_round = replace(FEW, rounds=1)
    unselected = next(name for name, number in first_rounds().items() if number)
    clusters, original = trained_clusters(tmp_path, one_round)
    rounds: list[RoundRecord] = []
    assert torch.equal(
        unlearned_model(Knot(one_round), leaving_request(clusters, [unselected], rounds)), original
    )
    assert rounds == []


def test_second_request_starts_from_the_result_of_the_first(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)
    for leaving in (CLIENTS[:1], CLIENTS[:2]):
        model = unlearned_model(Knot(PLAN), leaving_request(clusters, leaving, []))
        assert torch.equal(model, model_without(tmp_path / str(len(leaving)), leaving))
    assert all(
        CLIENTS[0] not in each.clients for _, history in clusters for each in history.snapshots
    )


def test_request_repeated_after_a_crash_gives_the_same_model(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)

    class CrashingCohort(RecordingCohort):
        def mean_update(
            self, members: Sequence[Member], task: LocalTask, slots: Slots
        ) -> MeanUpdate:
            if len(self.calls) == 4:
                raise KeyboardInterrupt
            return super().mean_update(members, task, slots)

    with pytest.raises(KeyboardInterrupt):
        unlearned_model(Knot(PLAN), leaving_request(clusters, CLIENTS[:1], [], CrashingCohort()))
    models = [
        unlearned_model(Knot(PLAN), leaving_request(clusters, CLIENTS[:1], [])) for _ in range(2)
    ]
    assert torch.equal(models[0], models[1])
    assert torch.equal(models[0], model_without(tmp_path, CLIENTS[:1]))


class SavedProgress:
    """A journal that writes a checkpoint only where it must, as with long intervals."""

    def __init__(self) -> None:
        self.latest: Any = None
        self.saved: Any = None  # what the newest checkpoint has

    def recorded(self, name: str, kind: type[Any]) -> Any:
        del name, kind
        return self.saved

    def record(self, name: str, value: object) -> None:
        del name
        self.latest = value

    def save(self) -> None:
        self.saved = self.latest


def test_a_crash_after_the_files_are_written_gives_the_same_model_and_record(
    tmp_path: Path,
) -> None:
    gone, (clusters, _) = [CLIENTS[0], CLIENTS[4]], trained_clusters(tmp_path)
    request = replace(leaving_request(clusters, gone, []), journal=SavedProgress())
    first = unlearn(Knot(PLAN), request)
    again = unlearn(
        Knot(PLAN), replace(leaving_request(clusters, gone, []), journal=request.journal)
    )
    assert torch.equal(again.model, first.model)
    assert torch.equal(again.model, model_without(tmp_path, gone))
    assert again.rounds == first.rounds
    assert len(first.rounds) == 2 * PLAN.rounds


def test_empty_cluster_is_not_in_the_mean(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)
    (_, remaining), _ = clusters
    for _ in range(2):
        model = unlearned_model(Knot(PLAN), leaving_request(clusters, GROUPS[1], []))
        assert remaining.model is not None
        assert torch.equal(model, remaining.model)
    with pytest.raises(PolicyError, match="no client remains"):
        unlearned_model(Knot(PLAN), leaving_request(clusters, CLIENTS, []))


def test_client_with_retained_rows_trains_again(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)
    cohort = RecordingCohort(forgotten=5)
    request = leaving_request(clusters, CLIENTS[:1], [], cohort)
    unlearned_model(
        Knot(PLAN), replace(request, remaining=[Member(CLIENTS[0], "retained"), *request.remaining])
    )
    assert {str(member) for _, member in cohort.calls} == {
        f"{CLIENTS[0]}, retained rows", CLIENTS[1], CLIENTS[2],
    }  # fmt: skip


def test_retrain_uses_the_same_clusters() -> None:
    cohort, rounds = RecordingCohort(), list[RoundRecord]()
    request = leaving_request(None, GROUPS[1], rounds, cohort)
    alone = unlearned_model(Retrain(PLAN, groups=GROUPS), request)
    together = unlearned_model(Retrain(PLAN), request)
    assert torch.equal(alone, together)
    both = unlearned_model(Retrain(PLAN, groups=GROUPS), leaving_request(None, CLIENTS[:1], []))
    assert not torch.equal(
        both, unlearned_model(Retrain(PLAN), leaving_request(None, CLIENTS[:1], []))
    )


def test_knot_needs_a_training_in_clusters() -> None:
    with pytest.raises(PolicyError, match="needs a separate model of each cluster"):
        unlearned_model(Knot(PLAN), leaving_request(None, CLIENTS[:1], []))


def test_missing_cluster_files_are_refused(tmp_path: Path) -> None:
    clusters, _ = trained_clusters(tmp_path)
    (tmp_path / "clusters" / "0001.safetensors").unlink()
    with pytest.raises(PolicyError, match="the models of cluster 1 are missing"):
        unlearned_model(Knot(PLAN), leaving_request(clusters, CLIENTS[:1], []))


def test_knot_with_masks_needs_enough_leaving_clients_per_cluster() -> None:
    """One of three leaving clients is alone in its cluster: two sums would differ by its update."""
    party: Any = SimpleNamespace(
        agreement=SimpleNamespace(aggregation=SimpleNamespace(kind="masks", min_contributors=3))
    )
    task: Any = SimpleNamespace(common_start=False, clusters=(tuple("abcd"), tuple("efgh")))
    unused: Any = None
    requests = RequestRunner(party, unused, unused, unused, task)
    remaining = [Member(name, "retained") for name in "abcdefgh"]

    def check(names: str) -> None:
        leaving = [Member(name, "forgotten") for name in names]
        requests._require_feasible("r", leaving, remaining, [Knot(PLAN)])

    check("abc")
    check("abcefg")
    with pytest.raises(PolicyError, match="rows of only 1 of the clients that train together"):
        check("aefg")
    remaining = remaining[:2]
    with pytest.raises(PolicyError, match="only 2 clients have rows left, but secure aggregation"):
        check("abc")
    task.common_start, requests._cohort = True, SimpleNamespace(clients=())  # of language models
    check("abc")  # its methods sum over the clients that leave, too
    leaving = [Member(name, "forgotten") for name in "abc"]
    retrain: Any = SimpleNamespace(name="retrain")
    with pytest.raises(PolicyError, match="only 2 clients have rows left"):
        requests._require_feasible("r", leaving, remaining, [Knot(PLAN), retrain])
