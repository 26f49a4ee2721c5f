"""Every way to forget a client, on digits: what its stages do, and what they must not."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from clients import CLIENTS, LESSON, accuracy, fresh, learners, loss, network, scene, trained
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.seeded import seeded
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.history import StoredRounds
from parties.horizontal.engine.rounds import Course, run
from parties.horizontal.engine.unlearning_context import Turn
from parties.horizontal.local.learner import Learner, Shelf
from parties.horizontal.local.local_task import Aim, Learned, Lesson, Rows, Slots
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
from parties.horizontal.simulation.local_cohort import LocalCohort

OWN, OTHERS = CLIENTS[:1], CLIENTS[1:]


class Asked(LocalCohort):
    """Notes who was asked what."""

    def __init__(self, share: float | None = 0.4) -> None:
        super().__init__(learners(share))
        self.asked: list[tuple[list[str], Lesson, Slots]] = []

    @property
    def lessons(self) -> list[Lesson]:
        return [lesson for _, lesson, _ in self.asked]

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        self.asked.append(([each.client for each in members], lesson, slots))
        yield from super().each(members, lesson, slots)


def course(rounds: int, rate: float = 0.05, aim: Aim = "learn", **more: float) -> Course:
    lesson = replace(LESSON, stream=f"{aim} {rounds}", learning_rate=rate, aim=aim, **more)  # type: ignore[arg-type]
    return Course(lesson, rounds)


def carried_out(method: Method, share: float | None = 0.4) -> tuple[Tensor, list[Turn]]:
    turns: list[Turn] = []
    return method.run(scene(turns, share)), turns


def unlearned(turns: list[Turn]) -> Tensor:
    """The model after the first stage."""
    return [each for each in turns if each.stage == "unlearn"][-1].model


def fedosd(variant: Variant = "full", recover: int = 0) -> FedOsd:
    return FedOsd(course(15, 0.02), course(recover, 0.02), variant=variant)


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
    model, _ = carried_out(Retrain(course(15, 0.1)), share=0.2)
    assert accuracy(model, OWN, 0.2) < accuracy(trained(0.2), OWN, 0.2)


@pytest.mark.parametrize(
    "method",
    [
        FineTune(course(5)),
        FuPga(course(1), course(5, aim="climb"), course(5)),
        EwcSga(course(5, aim="ascend", proximal=1.0, clip=1.0), course(5)),
        MoDe(course(5, 0.1), course(5), course(5), momentum=0.8),
        Sfu(course(3, aim="climb"), course(5), network()),
        AdaClipping(course(1, aim="fisher").lesson, course(5)),
        *[
            FedForget(course(5), course(2), course(2), mode=mode)
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
    method = FedForget(course(1), course(8, 0.1), course(0))
    method.run(replace(scene([], 0.2), cohort=cohort))
    assert torch.equal(cohort.asked[0][2]["model"], fresh("fedforget"))
    assert all(names == OTHERS for names, _, _ in cohort.asked[:8])
    names, lesson, slots = cohort.asked[8]
    assert (names, lesson.aim) == (OWN, "teachers")
    assert torch.equal(slots["teacher"], trained(0.2))
    assert accuracy(slots["second"], OWN, 0.2) == 0
    assert accuracy(slots["second"], OTHERS, 0.2) > 0.8


def test_a_bad_teacher_teaches_the_leaving_client_alone() -> None:
    """What the original says of the rows that must go pulls at nothing."""
    cohort = Asked()
    method = FedForget(course(1), course(0), course(0), mode="bad_teacher")
    method.run(replace(scene([]), cohort=cohort))
    [told] = [lesson for _, lesson, _ in cohort.asked if lesson.aim == "teachers"]
    assert told.weights == (0.0, 0.245)
    turns: list[Turn] = []
    FedForget(course(10), course(0), course(0), mode="bad_teacher").run(scene(turns))
    assert accuracy(turns[-1].model, OWN) < accuracy(trained(), OWN) - 0.1


@pytest.mark.parametrize(("degrade", "guide"), [(3, 1), (1, 3)])
def test_mode_has_rounds_of_erasure_and_of_guidance(degrade: int, guide: int) -> None:
    cohort, turns = Asked(), list[Turn]()
    method = MoDe(course(degrade, 0.1), course(guide), course(0))
    method.run(replace(scene(turns), cohort=cohort))
    erased = [lesson for _, lesson, _ in cohort.asked if lesson.learning_rate == 0.1]
    guided = [lesson for _, lesson, _ in cohort.asked if lesson.aim == "pseudo-labels"]
    assert (len(erased), len(guided), len(turns)) == (degrade, guide, 3)
    assert [each.loss is not None for each in turns] == [n < guide for n in range(3)]


def test_mode_guides_the_leaving_client_by_the_degradation_model_s_labels() -> None:
    cohort = Asked()
    MoDe(course(1, 0.1), course(1), course(0)).run(replace(scene([]), cohort=cohort))
    degrade, guide, _ = cohort.asked
    taught = LocalCohort(learners()).mean([Member(n) for n in OTHERS], degrade[1], degrade[2])
    assert (degrade[0], guide[0], guide[1].aim) == (OTHERS, OWN, "pseudo-labels")
    assert torch.equal(degrade[2]["model"], fresh("mode"))
    assert torch.allclose(guide[2]["teacher"], fresh("mode") + taught.change.float())


@pytest.mark.parametrize("kind", ["fu-pga", "ewc-sga"])
def test_ascent_forgets(kind: str) -> None:
    if kind == "fu-pga":
        method: Method = FuPga(course(1), course(10, aim="climb"), course(0))
    else:
        method = EwcSga(course(10, aim="ascend", proximal=0.1, clip=1.0), course(0))
    model, _ = carried_out(method)
    assert accuracy(model, OWN) < 0.4


def test_fu_pga_stops_at_a_squared_distance() -> None:
    """Of the rounds of a free ascent, the first that is farther than the bound is the last."""
    climb, free = course(6, 0.0005, aim="ascend"), list[Turn]()
    FuPga(course(1), climb, course(0), far=1e9).run(scene(free))
    cohort = Asked()
    own = cohort.mean([Member(CLIENTS[0])], course(1).at(0), {"model": trained()})
    away = [float((each.model - trained() - own.change).norm()) for each in free]
    assert away == sorted(away)
    turns, far = list[Turn](), (away[2] ** 2 + away[3] ** 2) / 2
    assert far < away[0]  # so that a norm would end it at once
    FuPga(course(1), climb, course(0), far=far).run(scene(turns))
    assert len(turns) == 4


def test_fu_pga_learns_the_client_s_last_lesson_at_the_rate_of_its_time() -> None:
    cohort, last = Asked(), replace(course(11, 0.1), decay=0.5)
    FuPga(last, course(0), course(0)).run(replace(scene([]), cohort=cohort))
    assert cohort.lessons[0].learning_rate == pytest.approx(0.1 * 0.5**10)


def test_fu_pga_takes_all_who_leave_out_and_their_rows_count_as_clients() -> None:
    """The same rows are the same clients, whether others of theirs stay or not."""
    both = [Member(name) for name in CLIENTS[:2]]
    method = FuPga(course(1), course(0), course(0))
    own = LocalCohort(learners()).mean(both, course(1).at(0), {"model": trained()}).change
    found = method.run(replace(scene([]), leaving=both, staying=[Member(n) for n in CLIENTS[2:]]))
    assert torch.allclose(found, (trained() - own * 2 / 3).float(), atol=1e-6)
    only = LocalCohort({CLIENTS[0]: learners(forgotten=20)[CLIENTS[0]]})
    leaving, staying = ([Member(CLIENTS[0], kind)] for kind in ("forgotten", "retained"))
    part = replace(scene([]), cohort=only, leaving=leaving, staying=staying)  # type: ignore[arg-type]
    assert torch.isfinite(method.run(part)).all()


def test_fu_pga_without_anybody_who_stays_asks_nobody() -> None:
    cohort = Asked()
    with pytest.raises(PolicyError, match="nobody does"):
        FuPga(course(1), course(1), course(0)).run(replace(scene([]), cohort=cohort, staying=[]))
    assert cohort.lessons == []


def outputs(net: nn.Module, model: Tensor, rows: Rows) -> Tensor:
    vector_to_parameters(model.clone(), net.parameters())
    return net(rows.inputs).detach()


def normalised() -> nn.Module:
    """Layers with a bias and without, and parameters that are no layer's."""
    first, last = nn.Linear(64, 32, bias=False), nn.Linear(32, 10)
    return nn.Sequential(nn.Flatten(), first, nn.LayerNorm(32), nn.ReLU(), last)


@pytest.mark.parametrize("net", [network(), seeded(1, normalised)], ids=["mlp", "normalised"])
def test_sfu_leaves_the_others_outputs_alone(net: nn.Module) -> None:
    """Those who stay hold three rows each, all of whose inputs are told."""
    clients = {name: Learner(name, net, each.shelf, 0) for name, each in learners().items()}
    for name in OTHERS:
        few = clients[name].shelf.rows.take(np.arange(3))
        clients[name].shelf = Shelf(few, few)
    start = parameters_to_vector(net.parameters()).detach()
    place = replace(scene([]), cohort=LocalCohort(clients), original=start)
    climb = course(5, 0.5, aim="ascend", clip=1.0, batch=400)
    model = Sfu(climb, course(0), net, energy=1.0).run(place)
    own = clients[CLIENTS[0]].shelf.rows
    assert (outputs(net, model, own) - outputs(net, start, own)).abs().max() > 0.05
    for name in OTHERS:
        rows = clients[name].shelf.rows
        moved = outputs(net, model, rows) - outputs(net, start, rows)
        assert moved.abs().max() < 1e-4


def history(folder: Path, every: int = 1) -> tuple[StoredRounds, Tensor]:
    kept = StoredRounds(folder, every)
    members = [Member(name) for name in CLIENTS]
    cohort = LocalCohort(learners())
    model = run(cohort, fresh("original"), members, Course(LESSON, 15), lambda *_: None, kept)
    return kept, model


def test_federaser_replays_the_training_without_the_client(tmp_path: Path) -> None:
    kept, _ = history(tmp_path, every=3)
    turns: list[Turn] = []
    method = FedEraser(course(1, 0.1), course(3), network())
    model = method.run(scene(turns, history=kept))
    assert len([each for each in turns if each.stage == "unlearn"]) == 4
    assert accuracy(model, OTHERS) > 0.6
    assert accuracy(model, OWN) < accuracy(trained(), OWN)


def test_fedrecovery_takes_a_part_of_the_client_out(tmp_path: Path) -> None:
    kept, original = history(tmp_path)
    turns: list[Turn] = []
    FedRecovery(course(0)).run(scene(turns, history=kept))
    moved = turns[0].model - original
    found = list(kept.rounds())
    own = sum((f[Member(CLIENTS[0])].change for _, f in found), torch.zeros_like(moved))
    assert float(moved @ own) < 0  # against what the client did
    noisy = FedRecovery(course(0), epsilon=1.0, beta=1e-5).run(scene([], history=kept))
    spread = 4.900555 * float(moved.norm())  # of the noise that hides the distance that was gone
    assert float((noisy - turns[0].model).std()) == pytest.approx(spread, rel=0.1)


def test_fedrecovery_takes_all_who_leave_out_and_its_noise_is_the_server_s(tmp_path: Path) -> None:
    kept, _ = history(tmp_path)
    here = scene([], history=kept)  # the seed of the agreement is one for all
    gone = ([Member(name) for name in CLIENTS[:count]] for count in (1, 2))
    one, both = (FedRecovery(course(0)).run(replace(here, leaving=each)) for each in gone)
    assert not torch.equal(one, both)
    secrets = [partial(bytes, [number] * 32) for number in (1, 1, 2)]
    noisy = FedRecovery(course(0), epsilon=1.0)
    first, again, other = (noisy.run(replace(here, secret=each)) for each in secrets)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_federaser_replays_rounds_in_which_not_all_took_part(tmp_path: Path) -> None:
    kept, members = StoredRounds(tmp_path, 1), [Member(name) for name in CLIENTS]
    plan, cohort = Course(LESSON, 6, share=0.4), LocalCohort(learners())
    assert plan.chosen(members, 0) != members
    run(cohort, fresh("original"), members, plan, lambda *_: None, kept)
    model = FedEraser(course(1), course(0), network()).run(scene([], history=kept))
    assert torch.isfinite(model).all()
    alone = replace(scene([], history=kept), staying=[])
    assert torch.equal(FedEraser(course(1), course(0), network()).run(alone), fresh("original"))


def test_federaser_takes_no_update_over_that_knows_forgotten_rows(tmp_path: Path) -> None:
    kept, _ = history(tmp_path, every=100)  # the first round alone
    part = replace(
        scene([], history=kept),
        leaving=[Member(CLIENTS[0], "forgotten")],
        staying=[Member(CLIENTS[0], "retained"), *(Member(name) for name in CLIENTS[1:])],
    )
    method = FedEraser(course(1), course(0), network())
    assert torch.equal(method.run(part), method.run(scene([], history=kept)))


@pytest.mark.parametrize(
    "method",
    [fedosd(), FedOsd(course(0), course(1)), Sfu(course(1, aim="climb"), course(0), network())],
    ids=["fedosd", "recovery of fedosd", "sfu"],
)
@pytest.mark.parametrize("there", [0, 2])
def test_ways_that_look_at_single_clients_need_the_quorum_too(method: Method, there: int) -> None:
    cohort = LocalCohort(learners(), 0.8, lambda member, _: member.client in CLIENTS[: there + 1])
    with pytest.raises(PolicyError, match=f"{there} of 4 clients answered"):
        method.run(replace(scene([]), cohort=cohort))


@pytest.mark.parametrize(
    "method", [FedRecovery(course(0)), FedEraser(course(1), course(0), network())]
)
def test_ways_that_need_the_history_say_so(method: Method) -> None:
    with pytest.raises(PolicyError, match="needs the history of the training"):
        carried_out(method)
