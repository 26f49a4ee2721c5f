"""Every way to forget a client, on digits: what its stages do, and what they must not."""

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
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.initialisation import build_seeded
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.history import RoundStore
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.engine.unlearning_context import RoundRecord
from parties.horizontal.local.local_task import Aim, LocalTask, LocalUpdate, Slots
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.rows import ClientData, Rows
from parties.horizontal.methods.adaclipping import AdaClipping
from parties.horizontal.methods.ewc_sga import EwcSga
from parties.horizontal.methods.federaser import FedEraser
from parties.horizontal.methods.fedforget import FedForget
from parties.horizontal.methods.fedosd import FedOsd, Variant
from parties.horizontal.methods.fedrecovery import FedRecovery
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.retrain import Retrain
from parties.horizontal.methods.sfu import Sfu

OWN, OTHERS = CLIENTS[:1], CLIENTS[1:]


class Asked(LocalCohort):
    """Notes who was asked what."""

    def __init__(self, share: float | None = 0.4) -> None:
        super().__init__(client_tasks(share))
        self.asked: list[tuple[list[str], LocalTask, Slots]] = []

    @property
    def lessons(self) -> list[LocalTask]:
        return [task for _, task, _ in self.asked]

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        self.asked.append(([each.client for each in members], task, slots))
        yield from super().updates(members, task, slots)


def round_plan(rounds: int, rate: float = 0.05, aim: Aim = "fit", **more: float) -> RoundPlan:
    task = replace(LOCAL_TASK, stream=f"{aim} {rounds}", learning_rate=rate, aim=aim, **more)  # type: ignore[arg-type]
    return RoundPlan(task, rounds)


def carried_out(method: Method, share: float | None = 0.4) -> tuple[Tensor, list[RoundRecord]]:
    turns: list[RoundRecord] = []
    return method.run(context(turns, share)), turns


def unlearned(turns: list[RoundRecord]) -> Tensor:
    """The model after the first stage."""
    return [each for each in turns if each.stage == "unlearn"][-1].model


def fedosd(variant: Variant = "full", recover: int = 0) -> FedOsd:
    return FedOsd(round_plan(15, 0.02), round_plan(recover, 0.02), variant=variant)


def test_fedosd_forgets_the_client_against_nobody() -> None:
    _, turns = carried_out(fedosd())
    assert [each.conflicts for each in turns] == [0] * 15
    assert all(each.cosine is not None and each.cosine < 1e-6 for each in turns)
    assert accuracy(unlearned(turns), OWN) < 0.2 < accuracy(trained(), OWN)


def test_without_the_projection_others_lose() -> None:
    _, turns = carried_out(fedosd("no-orthogonal"))
    assert sum(each.conflicts or 0 for each in turns) > 15


def test_a_direction_that_all_like_does_not_forget() -> None:
    _, turns = carried_out(fedosd("common-descent"))
    assert accuracy(unlearned(turns), OWN) > accuracy(trained(), OWN) - 0.2


def test_plain_ascent_goes_on_beyond_a_uniform_guess() -> None:
    _, turns = carried_out(fedosd("ascent"))
    assert not any(each.skipped for each in turns)
    assert loss(turns[-1].model, OWN[0]) > 3 * log(10) > loss(trained(), OWN[0])


def test_recovery_brings_the_others_back_and_goes_away_from_the_original() -> None:
    model, turns = carried_out(fedosd(recover=15))
    away = [float((each.model - trained()).norm()) for each in turns if each.stage == "recover"]
    assert accuracy(model, OTHERS) > accuracy(unlearned(turns), OTHERS) + 0.1
    assert away[-1] >= away[0] - 1e-4


def test_retrain_and_what_is_left_of_the_client_s_classes() -> None:
    """With a part of the classes each, nobody else has all of the client's rows' classes."""
    model, _ = carried_out(Retrain(round_plan(15, 0.1)), share=0.2)
    assert accuracy(model, OWN, 0.2) < accuracy(trained(0.2), OWN, 0.2)


@pytest.mark.parametrize(
    "method",
    [
        FineTune(round_plan(5)),
        FuPga(round_plan(1), round_plan(5, aim="ascent"), round_plan(5)),
        EwcSga(round_plan(5, aim="elastic", proximal=1.0, clip=1.0), round_plan(5)),
        MoDe(round_plan(5, 0.1), round_plan(5), round_plan(5), momentum=0.8),
        Sfu(round_plan(3, aim="ascent"), round_plan(5), network()),
        AdaClipping(round_plan(1, aim="fisher").task, round_plan(5)),
        *[
            FedForget(round_plan(5), round_plan(2), round_plan(2), mode=mode)
            for mode in ("literal", "repel", "clean_teacher", "bad_teacher", "ga")
        ],
    ],
    ids=lambda method: f"{method.name} {getattr(method, 'mode', '')}".strip(),
)
def test_every_way_leaves_a_model_that_serves_those_who_stay(method: Method) -> None:
    model, turns = carried_out(method)
    assert torch.isfinite(model).all()
    assert accuracy(model, OTHERS) > 0.6
    assert not torch.equal(model, trained())
    assert (turns[-1].stage, method.rounds or len(turns)) == ("recover", len(turns))


def test_the_clean_teacher_never_saw_the_rows() -> None:
    """It begins at random weights, and nobody but those who stay teaches it."""
    cohort = Asked(share=0.2)  # nobody else holds the client's classes
    method = FedForget(round_plan(1), round_plan(8, 0.1), round_plan(0))
    method.run(replace(context([], 0.2), cohort=cohort))
    assert torch.equal(cohort.asked[0][2]["model"], fresh("fedforget"))
    assert all(names == OTHERS for names, _, _ in cohort.asked[:8])
    names, task, slots = cohort.asked[8]
    assert (names, task.aim) == (OWN, "teachers")
    assert torch.equal(slots["teacher"], trained(0.2))
    assert accuracy(slots["second"], OWN, 0.2) == 0
    assert accuracy(slots["second"], OTHERS, 0.2) > 0.8


def test_a_bad_teacher_teaches_the_leaving_client_alone() -> None:
    """What the original says of the rows that must go pulls at nothing."""
    cohort = Asked()
    method = FedForget(round_plan(1), round_plan(0), round_plan(0), mode="bad_teacher")
    method.run(replace(context([]), cohort=cohort))
    [told] = [task for _, task, _ in cohort.asked if task.aim == "teachers"]
    assert told.teacher_weights == (0.0, 0.245)
    turns: list[RoundRecord] = []
    FedForget(round_plan(10), round_plan(0), round_plan(0), mode="bad_teacher").run(context(turns))
    assert accuracy(turns[-1].model, OWN) < accuracy(trained(), OWN) - 0.1


@pytest.mark.parametrize(("degrade", "guide"), [(3, 1), (1, 3)])
def test_mode_has_rounds_of_erasure_and_of_guidance(degrade: int, guide: int) -> None:
    cohort, turns = Asked(), list[RoundRecord]()
    method = MoDe(round_plan(degrade, 0.1), round_plan(guide), round_plan(0))
    method.run(replace(context(turns), cohort=cohort))
    erased = [task for _, task, _ in cohort.asked if task.learning_rate == 0.1]
    guided = [task for _, task, _ in cohort.asked if task.aim == "pseudo-labels"]
    assert (len(erased), len(guided), len(turns)) == (degrade, guide, 3)
    assert [each.loss is not None for each in turns] == [n < guide for n in range(3)]


def test_mode_guides_the_leaving_client_by_the_degradation_model_s_labels() -> None:
    cohort = Asked()
    MoDe(round_plan(1, 0.1), round_plan(1), round_plan(0)).run(replace(context([]), cohort=cohort))
    degrade, guide, _ = cohort.asked
    taught = LocalCohort(client_tasks()).mean_update(
        [Member(n) for n in OTHERS], degrade[1], degrade[2]
    )
    assert (degrade[0], guide[0], guide[1].aim) == (OTHERS, OWN, "pseudo-labels")
    assert torch.equal(degrade[2]["model"], fresh("mode"))
    assert torch.allclose(guide[2]["teacher"], fresh("mode") + taught.delta.float())


@pytest.mark.parametrize("kind", ["fu-pga", "ewc-sga"])
def test_ascent_forgets(kind: str) -> None:
    if kind == "fu-pga":
        method: Method = FuPga(round_plan(1), round_plan(10, aim="ascent"), round_plan(0))
    else:
        method = EwcSga(round_plan(10, aim="elastic", proximal=0.1, clip=1.0), round_plan(0))
    model, _ = carried_out(method)
    assert accuracy(model, OWN) < 0.4


def test_fu_pga_stops_at_a_squared_distance() -> None:
    """Of the rounds of a free ascent, the first that is farther than the bound is the last."""
    climb, free = round_plan(6, 0.0005, aim="elastic"), list[RoundRecord]()
    FuPga(round_plan(1), climb, round_plan(0), max_distance=1e9).run(context(free))
    cohort = Asked()
    own = cohort.mean_update([Member(CLIENTS[0])], round_plan(1).task_at(0), {"model": trained()})
    away = [float((each.model - trained() - own.delta).norm()) for each in free]
    assert away == sorted(away)
    turns, far = list[RoundRecord](), (away[2] ** 2 + away[3] ** 2) / 2
    assert far < away[0]  # so that a norm would end it at once
    FuPga(round_plan(1), climb, round_plan(0), max_distance=far).run(context(turns))
    assert len(turns) == 4


def test_fu_pga_learns_the_client_s_last_lesson_at_the_rate_of_its_time() -> None:
    cohort, last = Asked(), replace(round_plan(11, 0.1), decay=0.5)
    FuPga(last, round_plan(0), round_plan(0)).run(replace(context([]), cohort=cohort))
    assert cohort.lessons[0].learning_rate == pytest.approx(0.1 * 0.5**10)


def test_fu_pga_takes_all_who_leave_out_and_their_rows_count_as_clients() -> None:
    """The same rows are the same clients, whether others of theirs stay or not."""
    both = [Member(name) for name in CLIENTS[:2]]
    method = FuPga(round_plan(1), round_plan(0), round_plan(0))
    own = (
        LocalCohort(client_tasks())
        .mean_update(both, round_plan(1).task_at(0), {"model": trained()})
        .delta
    )
    found = method.run(
        replace(context([]), leaving=both, remaining=[Member(n) for n in CLIENTS[2:]])
    )
    assert torch.allclose(found, (trained() - own * 2 / 3).float(), atol=1e-6)
    only = LocalCohort({CLIENTS[0]: client_tasks(forgotten=20)[CLIENTS[0]]})
    leaving, staying = ([Member(CLIENTS[0], kind)] for kind in ("forgotten", "retained"))
    part = replace(context([]), cohort=only, leaving=leaving, remaining=staying)  # type: ignore[arg-type]
    assert torch.isfinite(method.run(part)).all()


def test_fu_pga_without_anybody_who_stays_asks_nobody() -> None:
    cohort = Asked()
    with pytest.raises(PolicyError, match="no client remains"):
        FuPga(round_plan(1), round_plan(1), round_plan(0)).run(
            replace(context([]), cohort=cohort, remaining=[])
        )
    assert cohort.lessons == []


def outputs(net: nn.Module, model: Tensor, rows: Rows) -> Tensor:
    vector_to_parameters(model.clone(), net.parameters())
    return net(rows.inputs).detach()


def normalised() -> nn.Module:
    """Layers with a bias and without, and parameters that are no layer's."""
    first, last = nn.Linear(64, 32, bias=False), nn.Linear(32, 10)
    return nn.Sequential(nn.Flatten(), first, nn.LayerNorm(32), nn.ReLU(), last)


@pytest.mark.parametrize("net", [network(), build_seeded(1, normalised)], ids=["mlp", "normalised"])
def test_sfu_leaves_the_others_outputs_alone(net: nn.Module) -> None:
    """Those who stay hold three rows each, all of whose inputs are told."""
    clients = {
        name: NetworkClientTask(name, net, each.client_data, 0)
        for name, each in client_tasks().items()
    }
    for name in OTHERS:
        few = clients[name].client_data.train.take(np.arange(3))
        clients[name].client_data = ClientData(few, few)
    start = parameters_to_vector(net.parameters()).detach()
    place = replace(context([]), cohort=LocalCohort(clients), original=start)
    climb = round_plan(5, 0.5, aim="elastic", clip=1.0, batch=400)
    model = Sfu(climb, round_plan(0), net, energy=1.0).run(place)
    own = clients[CLIENTS[0]].client_data.train
    assert (outputs(net, model, own) - outputs(net, start, own)).abs().max() > 0.05
    for name in OTHERS:
        rows = clients[name].client_data.train
        moved = outputs(net, model, rows) - outputs(net, start, rows)
        assert moved.abs().max() < 1e-4


def history(folder: Path, every: int = 1) -> tuple[RoundStore, Tensor]:
    kept = RoundStore(folder, every)
    members = [Member(name) for name in CLIENTS]
    cohort = LocalCohort(client_tasks())
    model = run_rounds(
        cohort, fresh("original"), members, RoundPlan(LOCAL_TASK, 15), lambda *_: None, kept
    )
    return kept, model


def test_federaser_replays_the_training_without_the_client(tmp_path: Path) -> None:
    kept, _ = history(tmp_path, every=3)
    turns: list[RoundRecord] = []
    method = FedEraser(round_plan(1, 0.1), round_plan(3), network())
    model = method.run(context(turns, history=kept))
    assert len([each for each in turns if each.stage == "unlearn"]) == 4
    assert accuracy(model, OTHERS) > 0.6
    assert accuracy(model, OWN) < accuracy(trained(), OWN)


def test_fedrecovery_takes_a_part_of_the_client_out(tmp_path: Path) -> None:
    kept, original = history(tmp_path)
    turns: list[RoundRecord] = []
    FedRecovery(round_plan(0)).run(context(turns, history=kept))
    moved = turns[0].model - original
    found = list(kept.rounds())
    own = sum((f[Member(CLIENTS[0])].delta for _, f in found), torch.zeros_like(moved))
    assert float(moved @ own) < 0  # against what the client did
    noisy = FedRecovery(round_plan(0), epsilon=1.0, beta=1e-5).run(context([], history=kept))
    spread = 4.900555 * float(moved.norm())  # of the noise that hides the distance that was gone
    assert float((noisy - turns[0].model).std()) == pytest.approx(spread, rel=0.1)


def test_fedrecovery_takes_all_who_leave_out_and_its_noise_is_the_server_s(tmp_path: Path) -> None:
    kept, _ = history(tmp_path)
    here = context([], history=kept)  # the seed of the agreement is one for all
    gone = ([Member(name) for name in CLIENTS[:count]] for count in (1, 2))
    one, both = (FedRecovery(round_plan(0)).run(replace(here, leaving=each)) for each in gone)
    assert not torch.equal(one, both)
    secrets = [partial(bytes, [number] * 32) for number in (1, 1, 2)]
    noisy = FedRecovery(round_plan(0), epsilon=1.0)
    first, again, other = (noisy.run(replace(here, secret=each)) for each in secrets)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_federaser_replays_rounds_in_which_not_all_took_part(tmp_path: Path) -> None:
    kept, members = RoundStore(tmp_path, 1), [Member(name) for name in CLIENTS]
    plan, cohort = RoundPlan(LOCAL_TASK, 6, share=0.4), LocalCohort(client_tasks())
    assert plan.select_members(members, 0) != members
    run_rounds(cohort, fresh("original"), members, plan, lambda *_: None, kept)
    model = FedEraser(round_plan(1), round_plan(0), network()).run(context([], history=kept))
    assert torch.isfinite(model).all()
    alone = replace(context([], history=kept), remaining=[])
    assert torch.equal(
        FedEraser(round_plan(1), round_plan(0), network()).run(alone), fresh("original")
    )


def test_federaser_takes_no_update_over_that_knows_forgotten_rows(tmp_path: Path) -> None:
    kept, _ = history(tmp_path, every=100)  # the first round alone
    part = replace(
        context([], history=kept),
        leaving=[Member(CLIENTS[0], "forgotten")],
        remaining=[Member(CLIENTS[0], "retained"), *(Member(name) for name in CLIENTS[1:])],
    )
    method = FedEraser(round_plan(1), round_plan(0), network())
    assert torch.equal(method.run(part), method.run(context([], history=kept)))


@pytest.mark.parametrize(
    "method",
    [
        fedosd(),
        FedOsd(round_plan(0), round_plan(1)),
        Sfu(round_plan(1, aim="ascent"), round_plan(0), network()),
    ],
    ids=["fedosd", "recovery of fedosd", "sfu"],
)
@pytest.mark.parametrize("there", [0, 2])
def test_ways_that_look_at_single_clients_need_the_quorum_too(method: Method, there: int) -> None:
    cohort = LocalCohort(
        client_tasks(), 0.8, lambda member, _: member.client in CLIENTS[: there + 1]
    )
    with pytest.raises(PolicyError, match=f"{there} of 4 clients replied"):
        method.run(replace(context([]), cohort=cohort))


@pytest.mark.parametrize(
    "method", [FedRecovery(round_plan(0)), FedEraser(round_plan(1), round_plan(0), network())]
)
def test_ways_that_need_the_history_say_so(method: Method) -> None:
    with pytest.raises(PolicyError, match="needs stored rounds of the training"):
        carried_out(method)
