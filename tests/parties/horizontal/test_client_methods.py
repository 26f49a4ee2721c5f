"""Every method that unlearns a client, on digits: the effect of each stage."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from clients import (
    CLIENTS,
    LOCAL_TASK,
    accuracy,
    client_tasks,
    context,
    fresh,
    loss,
    network,
    trained,
)
from local_cohort import LocalCohort
from local_run import unlearned_model
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.initialisation import build_seeded
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.history import RoundStore
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.engine.run import RoundRecord
from parties.horizontal.local.local_task import Aim, LocalTask, LocalUpdate, Slots
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.rows import ClientData, Rows
from parties.horizontal.methods.adaclipping import AdaClipping
from parties.horizontal.methods.ascent import ClientAscentSettings
from parties.horizontal.methods.ewc_sga import EwcSga
from parties.horizontal.methods.federaser import FedEraser
from parties.horizontal.methods.fedforget import FedForget, FedForgetSettings
from parties.horizontal.methods.fedosd import FedOsd, FedOsdSettings, Variant
from parties.horizontal.methods.fedrecovery import FedRecovery, FedRecoverySettings
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.mode import MoDe, MoDeSettings
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu

OWN, OTHERS = CLIENTS[:1], CLIENTS[1:]


class RecordingCohort(LocalCohort):
    """Records the members, the task and the slots of every call."""

    def __init__(self, share: float | None = 0.4) -> None:
        super().__init__(client_tasks(share))
        self.calls: list[tuple[list[str], LocalTask, Slots]] = []

    @property
    def tasks(self) -> list[LocalTask]:
        return [task for _, task, _ in self.calls]

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        self.calls.append(([each.client for each in members], task, slots))
        yield from super().updates(members, task, slots)


def round_plan(rounds: int, rate: float = 0.05, aim: Aim = "fit", **more: float) -> RoundPlan:
    task = replace(LOCAL_TASK, stream=f"{aim} {rounds}", learning_rate=rate, aim=aim, **more)  # type: ignore[arg-type]
    return RoundPlan(task, rounds)


def run_method(
    method: AnyClientMethod, share: float | None = 0.4
) -> tuple[Tensor, list[RoundRecord]]:
    rounds: list[RoundRecord] = []
    return unlearned_model(method, context(rounds, share)), rounds


def unlearned(rounds: list[RoundRecord]) -> Tensor:
    """Return the model after the stage "unlearn"."""
    return [each for each in rounds if each.stage == "unlearn"][-1].model


def fedosd(variant: Variant = "full", recover: int = 0) -> FedOsd:
    return FedOsd(
        round_plan(15, 0.02), round_plan(recover, 0.02), plan=FedOsdSettings(variant=variant)
    )


def test_fedosd_forgets_the_client_without_conflicts() -> None:
    _, rounds = run_method(fedosd())
    assert [each.conflicts for each in rounds] == [0] * 15
    assert all(each.cosine is not None and each.cosine < 1e-6 for each in rounds)
    assert accuracy(unlearned(rounds), OWN) < 0.2 < accuracy(trained(), OWN)


def test_fedosd_without_projection_has_conflicts() -> None:
    _, rounds = run_method(fedosd("no-orthogonal"))
    assert sum(each.conflicts or 0 for each in rounds) > 15


def test_common_descent_does_not_forget() -> None:
    _, rounds = run_method(fedosd("common-descent"))
    assert accuracy(unlearned(rounds), OWN) > accuracy(trained(), OWN) - 0.2


def test_plain_ascent_exceeds_the_uniform_loss() -> None:
    _, rounds = run_method(fedosd("ascent"))
    assert not any(each.skipped for each in rounds)
    assert loss(rounds[-1].model, OWN[0]) > 3 * log(10) > loss(trained(), OWN[0])


def test_recovery_restores_others_and_keeps_away_from_the_original() -> None:
    model, rounds = run_method(fedosd(recover=15))
    distances = [
        float((each.model - trained()).norm()) for each in rounds if each.stage == "recover"
    ]
    assert accuracy(model, OTHERS) > accuracy(unlearned(rounds), OTHERS) + 0.1
    assert distances[-1] >= distances[0] - 1e-4


def test_retrain_has_lower_accuracy_on_the_client_s_classes() -> None:
    """No other client has all classes of the first client, so Retrain has a lower accuracy."""
    model, _ = run_method(Retrain(round_plan(15, 0.1)), share=0.2)
    assert accuracy(model, OWN, 0.2) < accuracy(trained(0.2), OWN, 0.2)


@pytest.mark.parametrize(
    "method",
    [
        FineTune(round_plan(5)),
        FuPga(round_plan(1), round_plan(5, aim="ascent"), round_plan(5)),
        EwcSga(round_plan(5, aim="elastic", proximal=1.0, clip=1.0), round_plan(5)),
        MoDe(round_plan(5, 0.1), round_plan(5), round_plan(5), plan=MoDeSettings(momentum=0.8)),
        Sfu(round_plan(3, aim="ascent"), round_plan(5), network()),
        AdaClipping(round_plan(1, aim="fisher").task, round_plan(5)),
        *[
            FedForget(
                round_plan(5), round_plan(2), round_plan(2), plan=FedForgetSettings(mode=mode)
            )
            for mode in ("literal", "repel", "clean_teacher", "bad_teacher", "ga")
        ],
    ],
    ids=lambda method: f"{method.name} {getattr(method, 'mode', '')}".strip(),
)
def test_every_method_keeps_the_accuracy_of_remaining_clients(method: AnyClientMethod) -> None:
    model, rounds = run_method(method)
    assert torch.isfinite(model).all()
    assert accuracy(model, OTHERS) > 0.6
    assert not torch.equal(model, trained())
    assert rounds[-1].stage == "recover"


def test_clean_teacher_is_trained_by_remaining_clients_only() -> None:
    """The clean teacher starts at random weights; only remaining clients train it."""
    cohort = RecordingCohort(share=0.2)  # no other client has the classes of the first one
    plan = FedForgetSettings(mode="clean_teacher")
    method = FedForget(round_plan(1), round_plan(8, 0.1), round_plan(0), plan)
    unlearned_model(method, replace(context([], 0.2), cohort=cohort))
    assert torch.equal(cohort.calls[0][2]["model"], fresh("fedforget"))
    assert all(names == OTHERS for names, _, _ in cohort.calls[:8])
    names, task, slots = cohort.calls[8]
    assert (names, task.aim) == (OWN, "teachers")
    assert torch.equal(slots["teacher"], trained(0.2))
    assert accuracy(slots["second"], OWN, 0.2) == 0
    assert accuracy(slots["second"], OTHERS, 0.2) > 0.8


def test_fedforget_is_the_printed_algorithm_by_default() -> None:
    """The leaving client alone trains teacher B, from the original model, and imitates it."""
    cohort = RecordingCohort()
    method = FedForget(round_plan(1), round_plan(2), round_plan(0))
    unlearned_model(method, replace(context([]), cohort=cohort))
    assert [names for names, _, _ in cohort.calls] == [OWN, OWN, OWN, OTHERS]
    assert torch.equal(cohort.calls[0][2]["model"], trained())
    task = cohort.calls[2][1]
    assert (task.aim, task.teacher_mode) == ("teachers", "literal")
    assert task.teacher_weights == (0.93, 0.245)


def test_bad_teacher_is_used_by_the_leaving_client_only() -> None:
    """The original as teacher of the forgotten rows has weight 0."""
    cohort = RecordingCohort()
    method = FedForget(
        round_plan(1), round_plan(0), round_plan(0), plan=FedForgetSettings(mode="bad_teacher")
    )
    unlearned_model(method, replace(context([]), cohort=cohort))
    [teacher_task] = [task for _, task, _ in cohort.calls if task.aim == "teachers"]
    assert teacher_task.teacher_weights == (0.0, 0.245)
    rounds: list[RoundRecord] = []
    unlearned_model(
        FedForget(
            round_plan(10), round_plan(0), round_plan(0), plan=FedForgetSettings(mode="bad_teacher")
        ),
        context(rounds),
    )
    assert accuracy(rounds[-1].model, OWN) < accuracy(trained(), OWN) - 0.1


@pytest.mark.parametrize(("degrade", "guide"), [(3, 1), (1, 3)])
def test_mode_runs_its_degrade_and_guide_rounds(degrade: int, guide: int) -> None:
    cohort, rounds = RecordingCohort(), list[RoundRecord]()
    method = MoDe(round_plan(degrade, 0.1), round_plan(guide), round_plan(0))
    unlearned_model(method, replace(context(rounds), cohort=cohort))
    erased = [task for _, task, _ in cohort.calls if task.learning_rate == 0.1]
    guided = [task for _, task, _ in cohort.calls if task.aim == "pseudo-labels"]
    assert (len(erased), len(guided), len(rounds)) == (degrade, guide, 3)
    assert [each.loss is not None for each in rounds] == [n < guide for n in range(3)]


def test_mode_guides_by_pseudo_labels_of_the_degradation_model() -> None:
    cohort = RecordingCohort()
    unlearned_model(
        MoDe(round_plan(1, 0.1), round_plan(1), round_plan(0)), replace(context([]), cohort=cohort)
    )
    degrade, guide, _ = cohort.calls
    mean = LocalCohort(client_tasks()).mean_update(
        [Member(n) for n in OTHERS], degrade[1], degrade[2]
    )
    assert (degrade[0], guide[0], guide[1].aim) == (OTHERS, OWN, "pseudo-labels")
    assert torch.equal(degrade[2]["model"], fresh("mode"))
    assert torch.allclose(guide[2]["teacher"], fresh("mode") + mean.delta.float())


@pytest.mark.parametrize("kind", ["fu-pga", "ewc-sga"])
def test_ascent_forgets(kind: str) -> None:
    if kind == "fu-pga":
        method: AnyClientMethod = FuPga(round_plan(1), round_plan(10, aim="ascent"), round_plan(0))
    else:
        method = EwcSga(round_plan(10, aim="elastic", proximal=0.1, clip=1.0), round_plan(0))
    model, _ = run_method(method)
    assert accuracy(model, OWN) < 0.4


def test_fu_pga_stops_at_a_squared_distance() -> None:
    """The ascent ends with the first round whose squared distance exceeds the bound."""
    ascent, unbounded = round_plan(6, 0.0005, aim="elastic"), list[RoundRecord]()
    unlearned_model(
        FuPga(round_plan(1), ascent, round_plan(0), plan=ClientAscentSettings(max_distance=1e9)),
        context(unbounded),
    )
    cohort = RecordingCohort()
    mean = cohort.mean_update([Member(CLIENTS[0])], round_plan(1).task_at(0), {"model": trained()})
    distances = [float((each.model - trained() - mean.delta).norm()) for each in unbounded]
    assert distances == sorted(distances)
    rounds, bound = list[RoundRecord](), (distances[2] ** 2 + distances[3] ** 2) / 2
    assert bound < distances[0]  # an unsquared norm would end the ascent in round 1
    unlearned_model(
        FuPga(round_plan(1), ascent, round_plan(0), plan=ClientAscentSettings(max_distance=bound)),
        context(rounds),
    )
    assert len(rounds) == 4


def test_fu_pga_repeats_the_last_task_at_its_decayed_rate() -> None:
    cohort, last = RecordingCohort(), replace(round_plan(11, 0.1), decay=0.5)
    unlearned_model(FuPga(last, round_plan(0), round_plan(0)), replace(context([]), cohort=cohort))
    assert cohort.tasks[0].learning_rate == pytest.approx(0.1 * 0.5**10)


def test_fu_pga_subtracts_all_leaving_clients() -> None:
    """Two leaving clients count as two; a client may also leave with a part of its rows."""
    both = [Member(name) for name in CLIENTS[:2]]
    method = FuPga(round_plan(1), round_plan(0), round_plan(0))
    delta = (
        LocalCohort(client_tasks())
        .mean_update(both, round_plan(1).task_at(0), {"model": trained()})
        .delta
    )
    model = unlearned_model(
        method, replace(context([]), leaving=both, remaining=[Member(n) for n in CLIENTS[2:]])
    )
    assert torch.allclose(model, (trained() - delta * 2 / 3).float(), atol=1e-6)
    only = LocalCohort({CLIENTS[0]: client_tasks(forgotten=20)[CLIENTS[0]]})
    leaving, remaining = ([Member(CLIENTS[0], kind)] for kind in ("forgotten", "retained"))
    part = replace(context([]), cohort=only, leaving=leaving, remaining=remaining)  # type: ignore[arg-type]
    assert torch.isfinite(unlearned_model(method, part)).all()


def test_fu_pga_without_remaining_clients_is_refused() -> None:
    cohort = RecordingCohort()
    with pytest.raises(PolicyError, match="no client remains"):
        unlearned_model(
            FuPga(round_plan(1), round_plan(1), round_plan(0)),
            replace(context([]), cohort=cohort, remaining=[]),
        )
    assert cohort.tasks == []


def outputs(net: nn.Module, model: Tensor, rows: Rows) -> Tensor:
    vector_to_parameters(model.clone(), net.parameters())
    return net(rows.inputs).detach()


def normalised() -> nn.Module:
    """Return a network with a layer without bias and a layer norm."""
    first, last = nn.Linear(64, 32, bias=False), nn.Linear(32, 10)
    return nn.Sequential(nn.Flatten(), first, nn.LayerNorm(32), nn.ReLU(), last)


@pytest.mark.parametrize("net", [network(), build_seeded(1, normalised)], ids=["mlp", "normalised"])
def test_sfu_does_not_change_outputs_of_other_clients(net: nn.Module) -> None:
    """Each remaining client has three rows and sends the inputs of all of them."""
    clients = {
        name: NetworkClientTask(name, net, each.client_data, 0)
        for name, each in client_tasks().items()
    }
    for name in OTHERS:
        few = clients[name].client_data.train.take(np.arange(3))
        clients[name].client_data = ClientData(few, few)
    start = parameters_to_vector(net.parameters()).detach()
    request = replace(context([]), cohort=LocalCohort(clients), original=start)
    ascent = round_plan(5, 0.5, aim="elastic", clip=1.0, batch=400)
    model = unlearned_model(
        Sfu(ascent, round_plan(0), net, plan=ClientAscentSettings(energy=1.0)), request
    )
    own = clients[CLIENTS[0]].client_data.train
    assert (outputs(net, model, own) - outputs(net, start, own)).abs().max() > 0.05
    for name in OTHERS:
        rows = clients[name].client_data.train
        moved = outputs(net, model, rows) - outputs(net, start, rows)
        assert moved.abs().max() < 1e-4


def trained_with_history(folder: Path, every: int = 1) -> tuple[RoundStore, Tensor]:
    history = RoundStore(folder, every)
    members = [Member(name) for name in CLIENTS]
    cohort = LocalCohort(client_tasks())
    model = run_rounds(
        cohort, fresh("original"), members, RoundPlan(LOCAL_TASK, 15), lambda *_: None, history
    )
    return history, model


def test_federaser_replays_the_training_without_the_client(tmp_path: Path) -> None:
    history, _ = trained_with_history(tmp_path, every=3)
    rounds: list[RoundRecord] = []
    method = FedEraser(round_plan(1, 0.1), round_plan(3), network())
    model = unlearned_model(method, context(rounds, history=history))
    assert len([each for each in rounds if each.stage == "unlearn"]) == 4
    assert accuracy(model, OTHERS) > 0.6
    assert accuracy(model, OWN) < accuracy(trained(), OWN)


def test_fedrecovery_subtracts_the_client_and_adds_noise(tmp_path: Path) -> None:
    history, original = trained_with_history(tmp_path)
    rounds: list[RoundRecord] = []
    unlearned_model(FedRecovery(round_plan(0)), context(rounds, history=history))
    moved = rounds[0].model - original
    stored = list(history.rounds())
    own = sum((f[Member(CLIENTS[0])].delta for _, f in stored), torch.zeros_like(moved))
    assert float(moved @ own) < 0  # opposite to the updates of the client
    noisy = unlearned_model(
        FedRecovery(round_plan(0), plan=FedRecoverySettings(epsilon=1.0)),
        context([], history=history),
    )
    spread = 4.900555 * float(moved.norm())  # standard deviation of the noise
    assert float((noisy - rounds[0].model).std()) == pytest.approx(spread, rel=0.1)


def test_fedrecovery_subtracts_all_leaving_clients_and_noise_depends_on_the_secret(
    tmp_path: Path,
) -> None:
    history, _ = trained_with_history(tmp_path)
    request = context([], history=history)  # all clients know the seed of the agreement
    leaving = ([Member(name) for name in CLIENTS[:count]] for count in (1, 2))
    one, both = (
        unlearned_model(FedRecovery(round_plan(0)), replace(request, leaving=each))
        for each in leaving
    )
    assert not torch.equal(one, both)
    secrets = [partial(bytes, [number] * 32) for number in (1, 1, 2)]
    noisy = FedRecovery(round_plan(0), plan=FedRecoverySettings(epsilon=1.0))
    first, again, other = (
        unlearned_model(noisy, replace(request, secret=each)) for each in secrets
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_fedrecovery_of_one_round_is_training_without_the_client(tmp_path: Path) -> None:
    """One client has a tenth of the rows of the others, and the largest leaves."""
    tasks = client_tasks(None)
    for name, every in zip(CLIENTS, (1, 10, 2, 2, 2), strict=True):
        own = tasks[name].client_data
        own.train = own.train.take(np.arange(0, len(own.train), every))
    history, members = RoundStore(tmp_path, 1), [Member(name) for name in CLIENTS]
    cohort, plan = LocalCohort(tasks), RoundPlan(LOCAL_TASK, 1)
    original = run_rounds(cohort, fresh("original"), members, plan, lambda *_: None, history)
    without = run_rounds(cohort, fresh("original"), members[1:], plan, lambda *_: None)
    request = replace(context([], history=history), cohort=cohort, original=original)
    found = unlearned_model(FedRecovery(round_plan(0)), request)
    assert float((original - without).norm()) > 0.1
    assert float((found - without).norm()) < 1e-5


def test_fedrecovery_passes_over_rounds_without_updates(tmp_path: Path) -> None:
    history, members = RoundStore(tmp_path, 1), [Member(name) for name in CLIENTS]
    plan, cohort = RoundPlan(LOCAL_TASK, 4, share=0.2), LocalCohort(client_tasks())
    run_rounds(cohort, fresh("original"), members, plan, lambda *_: None, history)
    first = plan.select_members(members, 0)[0]
    history.forget([first.client])  # an earlier request: one client a round, so none is left
    assert {len(found) for _, found in history.rounds()} == {0, 1}
    rest = [each for each in members if each != first]
    request = replace(context([], history=history), leaving=rest[:1], remaining=rest[1:])
    assert unlearned_model(FedRecovery(round_plan(0)), request).isfinite().all()


def test_federaser_replays_rounds_of_some_clients(tmp_path: Path) -> None:
    history, members = RoundStore(tmp_path, 1), [Member(name) for name in CLIENTS]
    plan, cohort = RoundPlan(LOCAL_TASK, 6, share=0.4), LocalCohort(client_tasks())
    assert plan.select_members(members, 0) != members
    run_rounds(cohort, fresh("original"), members, plan, lambda *_: None, history)
    model = unlearned_model(
        FedEraser(round_plan(1), round_plan(0), network()), context([], history=history)
    )
    assert torch.isfinite(model).all()
    alone = replace(context([], history=history), remaining=[])
    assert torch.equal(
        unlearned_model(FedEraser(round_plan(1), round_plan(0), network()), alone),
        fresh("original"),
    )


def test_federaser_drops_updates_from_forgotten_rows(tmp_path: Path) -> None:
    history, _ = trained_with_history(tmp_path, every=100)  # only the first round is stored
    part = replace(
        context([], history=history),
        leaving=[Member(CLIENTS[0], "forgotten")],
        remaining=[Member(CLIENTS[0], "retained"), *(Member(name) for name in CLIENTS[1:])],
    )
    method = FedEraser(round_plan(1), round_plan(0), network())
    assert torch.equal(
        unlearned_model(method, part), unlearned_model(method, context([], history=history))
    )


@pytest.mark.parametrize(
    "method",
    [
        fedosd(),
        FedOsd(round_plan(0), round_plan(1)),
        Sfu(round_plan(1, aim="ascent"), round_plan(0), network()),
    ],
    ids=["fedosd", "recovery of fedosd", "sfu"],
)
@pytest.mark.parametrize("present", [0, 2])
def test_methods_with_single_updates_need_the_quorum(method: AnyClientMethod, present: int) -> None:
    cohort = LocalCohort(
        client_tasks(), 0.8, lambda member, _: member.client in CLIENTS[: present + 1]
    )
    with pytest.raises(PolicyError, match=f"{present} of 4 clients replied"):
        unlearned_model(method, replace(context([]), cohort=cohort))


@pytest.mark.parametrize(
    "method", [FedRecovery(round_plan(0)), FedEraser(round_plan(1), round_plan(0), network())]
)
def test_methods_without_their_history_are_refused(method: AnyClientMethod) -> None:
    with pytest.raises(PolicyError, match="needs stored training rounds"):
        run_method(method)
