"""Clusters that learn apart: one goes back, the others do not notice."""

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
from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.clusters import ClusterStore, assign_clusters
from parties.horizontal.engine.cohort import MeanUpdate, Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import LocalTask, Slots
from parties.horizontal.methods.knot import Knot
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.requests import RequestRunner

GROUPS = (tuple(CLIENTS[:3]), tuple(CLIENTS[3:]))
COURSE = RoundPlan(LOCAL_TASK, 3)
FEW = RoundPlan(LOCAL_TASK, 9, share=0.3)  # one of three in a round


class Seen(LocalCohort):
    """Notes who is asked in which round."""

    def __init__(self, forgotten: int = 0) -> None:
        super().__init__(client_tasks(forgotten=forgotten))
        self.asked: list[tuple[str, Member]] = []

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        self.asked += [(task.stream, each) for each in members]
        return super().mean_update(members, task, slots)

    @property
    def names(self) -> set[str]:
        return {each.client for _, each in self.asked}


def ready(
    folder: Path, round_plan: RoundPlan = COURSE, groups: tuple[tuple[str, ...], ...] = GROUPS
) -> tuple[ClusterStore, Tensor]:
    clusters = ClusterStore(folder / "clusters", groups)
    return clusters, clusters.train(Seen(), fresh("original"), round_plan, lambda *_: None)


def leaves(
    clusters: ClusterStore | None,
    gone: Iterable[str],
    turns: list[RoundRecord],
    seen: Seen | None = None,
) -> UnlearningContext:
    gone = list(gone)
    return replace(
        context(turns), cohort=seen or Seen(), clusters=clusters,
        leaving=[Member(name, "forgotten") for name in gone],
        remaining=[Member(name, "retained") for name in CLIENTS if name not in gone],
    )  # fmt: skip


def without(folder: Path, gone: Iterable[str], round_plan: RoundPlan = COURSE) -> Tensor:
    """What the same clusters learn that never had these clients."""
    groups = tuple(tuple(name for name in group if name not in gone) for group in GROUPS)
    return ready(folder / "never", round_plan, groups)[1]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 9))
def test_clusters_are_dealt_evenly_and_by_names_alone(count: int, clusters: int, seed: int) -> None:
    names = [f"c{number}" for number in range(count)]
    found = assign_clusters(names, clusters, seed)
    assert sorted(name for group in found for name in group) == sorted(names)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert found == assign_clusters(names[::-1], clusters, seed)


def test_the_seed_deals() -> None:
    assert len({assign_clusters(CLIENTS, 2, seed) for seed in range(9)}) > 3


def test_a_training_in_clusters_is_the_mean_of_trainings_apart(tmp_path: Path) -> None:
    clusters, model = ready(tmp_path)
    parts = [ready(tmp_path / group[0], groups=(group,))[1] for group in GROUPS]
    assert torch.equal(model, (parts[0] + parts[1]) / 2)
    assert [[s.number for s in history.snapshots] for _, history in clusters] == [[0], [0]]
    assert torch.equal(
        ready(tmp_path / "one", RoundPlan(LOCAL_TASK, 15), (tuple(CLIENTS),))[1], trained()
    )


@pytest.mark.parametrize("gone", [CLIENTS[:1], CLIENTS[1:2], [CLIENTS[0], CLIENTS[4]]])
def test_it_is_a_training_that_never_had_the_clients(tmp_path: Path, gone: list[str]) -> None:
    clusters, original = ready(tmp_path)
    model = Knot(COURSE).run(leaves(clusters, gone, []))
    assert torch.equal(model, without(tmp_path, gone))
    assert not torch.equal(model, original)


def test_only_the_client_s_cluster_learns_again(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)
    before, seen = (tmp_path / "clusters" / "0001.safetensors").stat().st_mtime_ns, Seen()
    turns: list[RoundRecord] = []
    Knot(COURSE).run(leaves(clusters, CLIENTS[:1], turns, seen))
    assert seen.names == {CLIENTS[1], CLIENTS[2]}
    assert [each.number for each in turns] == [0, 1, 2]
    assert (tmp_path / "clusters" / "0001.safetensors").stat().st_mtime_ns == before


def firsts() -> dict[str, int]:
    """The first round of every client of the first cluster."""
    members = [Member(name) for name in GROUPS[0]]
    drawn = [FEW.select_members(members, number) for number in range(FEW.rounds)]
    return {
        each.client: min(n for n, chosen in enumerate(drawn) if each in chosen) for each in members
    }


def test_it_goes_back_to_before_the_client_s_first_round_and_no_further(tmp_path: Path) -> None:
    order = sorted(firsts(), key=lambda name: firsts()[name])
    last, number = order[-1], firsts()[order[-1]]
    assert number > 1
    clusters, _ = ready(tmp_path, FEW)
    before = next(iter(clusters))[1]
    turns, seen = list[RoundRecord](), Seen()
    Knot(FEW).run(leaves(clusters, [last], turns, seen))
    assert [each.number for each in turns] == list(range(number, FEW.rounds))
    after = next(iter(clusters))[1]
    assert last not in seen.names
    kept = [each for each in before.snapshots if each.number < number]
    assert [(s.number, s.clients) for s in after.snapshots] == [(s.number, s.clients) for s in kept]
    assert all(torch.equal(a.model, b.model) for a, b in zip(after.snapshots, kept, strict=True))


def test_who_never_took_part_is_in_no_model(tmp_path: Path) -> None:
    once = replace(FEW, rounds=1)
    never = next(name for name, number in firsts().items() if number)
    clusters, original = ready(tmp_path, once)
    turns: list[RoundRecord] = []
    assert torch.equal(Knot(once).run(leaves(clusters, [never], turns)), original)
    assert turns == []


def test_the_next_request_goes_on_from_there(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)
    for gone in (CLIENTS[:1], CLIENTS[:2]):
        model = Knot(COURSE).run(leaves(clusters, gone, []))
        assert torch.equal(model, without(tmp_path / str(len(gone)), gone))
    assert all(
        CLIENTS[0] not in each.clients for _, history in clusters for each in history.snapshots
    )


def test_done_again_after_a_crash_it_is_the_same(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)

    class Dies(Seen):
        def mean_update(
            self, members: Sequence[Member], task: LocalTask, slots: Slots
        ) -> MeanUpdate:
            if len(self.asked) == 4:
                raise KeyboardInterrupt
            return super().mean_update(members, task, slots)

    with pytest.raises(KeyboardInterrupt):
        Knot(COURSE).run(leaves(clusters, CLIENTS[:1], [], Dies()))
    found = [Knot(COURSE).run(leaves(clusters, CLIENTS[:1], [])) for _ in range(2)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], without(tmp_path, CLIENTS[:1]))


def test_a_cluster_without_anybody_is_in_no_mean(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)
    (_, kept), _ = clusters
    for _ in range(2):
        model = Knot(COURSE).run(leaves(clusters, GROUPS[1], []))
        assert kept.model is not None
        assert torch.equal(model, kept.model)
    with pytest.raises(PolicyError, match="no client remains in any cluster"):
        Knot(COURSE).run(leaves(clusters, CLIENTS, []))


def test_a_client_that_has_some_rows_forgotten_goes_on_with_the_rest(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)
    seen = Seen(forgotten=5)
    stage = leaves(clusters, CLIENTS[:1], [], seen)
    Knot(COURSE).run(replace(stage, remaining=[Member(CLIENTS[0], "retained"), *stage.remaining]))
    assert {str(member) for _, member in seen.asked} == {
        f"{CLIENTS[0]}, retained rows", CLIENTS[1], CLIENTS[2],
    }  # fmt: skip


def test_a_retrain_learns_in_the_same_clusters() -> None:
    seen, turns = Seen(), list[RoundRecord]()
    stage = leaves(None, GROUPS[1], turns, seen)
    alone = Retrain(COURSE, groups=GROUPS).run(stage)
    together = Retrain(COURSE).run(stage)
    assert torch.equal(alone, together)
    both = Retrain(COURSE, groups=GROUPS).run(leaves(None, CLIENTS[:1], []))
    assert not torch.equal(both, Retrain(COURSE).run(leaves(None, CLIENTS[:1], [])))


def test_knot_needs_a_training_in_clusters() -> None:
    with pytest.raises(PolicyError, match="knot needs a training in clusters"):
        Knot(COURSE).run(leaves(None, CLIENTS[:1], []))


def test_lost_clusters_are_not_taken_for_empty_ones(tmp_path: Path) -> None:
    clusters, _ = ready(tmp_path)
    (tmp_path / "clusters" / "0001.safetensors").unlink()
    with pytest.raises(PolicyError, match="the models of cluster 1 are missing"):
        Knot(COURSE).run(leaves(clusters, CLIENTS[:1], []))


def test_under_sums_a_cluster_is_not_repeated_without_the_rows_of_a_few() -> None:
    """Of three who leave, one is alone in its cluster: two sums would differ by its update."""
    party: Any = SimpleNamespace(
        agreement=SimpleNamespace(aggregation=SimpleNamespace(kind="masks", min_contributors=3))
    )
    subject: Any = SimpleNamespace(common_start=False, clusters=(tuple("abcd"), tuple("efgh")))
    nobody: Any = None
    requests = RequestRunner(party, nobody, nobody, nobody, subject)
    staying = [Member(name, "retained") for name in "abcdefgh"]

    def asked(names: str) -> None:
        leaving = [Member(name, "forgotten") for name in names]
        requests._require_feasible("r", leaving, staying, [Knot(COURSE)])

    asked("abc")
    asked("abcefg")
    with pytest.raises(PolicyError, match="rows of 1 of the clients that train together"):
        asked("aefg")
