"""One client's whole model on another one's rows, and ways to forget for one client alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from clients import scene
from five_clients import CONFIG, cohort, local, prepared, untouched
from test_data_free_methods import SHARE, Seen, course, fedgkt, fedmm, prompted_scene
from test_figures import Here
from test_personal import PLANS, build

from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from parties.common.shared_randomness import torch_seed
from parties.horizontal.evaluation.whole_model import FORGOTTEN, RETAINED, Lender, whole
from parties.horizontal.local.distillation import Distillation
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.networks import fresh
from parties.horizontal.local.personal import drawn, mask, personal
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.record import Record
from parties.horizontal.server import Server, checkpoints
from parties.horizontal.setup import take_horizontal_seat
from parties.horizontal.simulation.local_cohort import LocalCohort
from parties.horizontal.simulation.pool import PoolCohort
from parties.horizontal.simulation.simulated_data import Source

LESSON = Lesson(stream="one", batch=16, learning_rate=0.1)
PROMPTS = CONFIG.replace(
    "limits =",
    'personal = { kind = "mimir" }\nevaluation = { by = "client-3" }\n'
    'unlearning = { method = "fine-tune", compare = [], fine_tune = { rounds = 1 } }\nlimits =',
)
REFUSED = {
    "nobody": ('evaluation.by="client-9"', "evaluation.by must name a client that stays"),
    "who leaves": ('evaluation.by="client-0"', "must name a client that stays, and 'client-0'"),
    "a peer who leaves": ('unlearning.peer="client-0"', "unlearning.peer must name a client"),
    "all who have a class": ('unlearn=[{name="x", classes=["1"]}]', "must name a client that st"),
    "secure sums": ('aggregation.kind="masks"', "is about one client, which sums hide"),
    "a model that needs rows": ('personal={kind="gpfl"}', "lends parameters, and these"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_cannot_lend_is_refused(tmp_path: Path, case: str) -> None:
    change, told = REFUSED[case]
    (tmp_path / "wards.toml").write_text(PROMPTS)
    with pytest.raises(ConfigError, match=told):
        read_horizontal(tmp_path / "wards.toml", (change,))


def test_rows_of_who_leaves_are_measured_by_who_stays() -> None:
    """Two descriptors: each client's own, unless a model is measured as it was sent."""
    stage = prompted_scene([])
    gone, stays = stage.leaving[0].client, stage.staying[0]
    learners = stage.cohort._learners  # type: ignore[attr-defined]
    learners[gone].shelf.forgotten = torch.arange(40).numpy()
    found = Lender(stays, [gone], LESSON).read(stage.cohort, stage.original)
    learners[stays.client].network.descriptor.data.fill_(9.0)  # whatever it was left at
    wanted = learners[stays.client]
    rows, theirs = wanted.shelf, learners[gone].shelf
    wanted.shelf = replace(rows, rows=theirs.rows.take(theirs.forgotten))
    assert found[FORGOTTEN] == {gone: wanted.measure("learn", stage.original)}
    wanted.shelf = rows
    assert found[RETAINED] == {stays.client: wanted.measure("retained", stage.original)}
    own = learners[gone].measure("forgotten", stage.original)
    assert own.odds != found[FORGOTTEN][gone].odds


def test_the_whole_model_has_what_is_the_client_s_own() -> None:
    stage = prompted_scene([])
    gone = stage.leaving[0]
    told = whole(stage.cohort, [gone], LESSON, stage.original)
    own = mask(stage.cohort._learners[gone.client].network, ("descriptor",))  # type: ignore[attr-defined]
    assert torch.allclose(told[own], -stage.original[own], atol=1e-6)
    assert torch.equal(told[~own], stage.original[~own])


def test_over_lines_a_model_is_measured_as_it_was_sent(tmp_path: Path) -> None:
    ready = prepared(tmp_path, PROMPTS)
    model = fresh(ready[0].agreement, "original")
    with cohort(ready, [], untouched) as remote:
        sent = remote.read(remote.clients, "learn", model, "sent")
        own = remote.read(remote.clients, "learn", model)
    here = local(ready)
    for each in here._learners.values():
        each.personal = personal(ready[0].agreement, each.network)
    assert sent == here.read(here.clients, "learn", model, "sent")
    assert own == here.read(here.clients, "learn", model)
    assert all(sent[name] != own[name] for name in sent), "each has drawn its own descriptor"


def test_a_run_tells_what_the_lent_model_makes_of_the_leaving_rows(tmp_path: Path) -> None:
    config, place = prepared(tmp_path, PROMPTS)
    party = take_horizontal_seat(config, "server", place, lambda _: None)
    source, spokes = Source(tmp_path / "wards.toml", (), None), config.agreement.spokes
    pool = PoolCohort(spokes, source, Here(), 1.0)
    story = Server(party, pool, Record(party, checkpoints(party), bytes(16))).story()
    for method in story["requests"][0]["methods"]:
        known = {each["name"]: each for each in method["figures"]}
        for name in (FORGOTTEN, RETAINED):
            assert 0 <= known[name]["value"] <= 1
            assert (known[name]["retrain_mean"] is None) is (method["name"] == "retrain")
        scores = method["scores"]
        assert list(scores[RETAINED]) == ["client-3"]
        assert scores[RETAINED]["client-3"]["right"] == scores["retained"]["client-3"]["right"]


def test_every_client_draws_its_own_beginning() -> None:
    net = build("mimir")
    plan = replace(PLANS["mimir"], spread=2.0)
    own = mask(net, plan.own)
    some = [drawn(net, plan, torch_seed(0, "own", name)) for name in ("a", "b", "a")]
    first, other, again = (each[own] for each in some if each is not None)
    assert torch.equal(first, again)
    assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.6
    assert 1.0 < float(first.std()) < 3.0
    assert drawn(net, PLANS["mimir"], 0) is None


def test_a_first_lesson_begins_at_what_the_client_drew() -> None:
    net = build("mimir")
    model = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    plan = replace(PLANS["mimir"], spread=2.0)
    shelf = prompted_scene([]).cohort._learners["client-1"].shelf  # type: ignore[attr-defined]
    one = Learner("client-1", net, shelf, 0, plan)
    one.answer("learn", replace(LESSON, learning_rate=1e-9), {"model": model})
    own = mask(net, plan.own)
    begun = drawn(net, plan, torch_seed(0, "own", "client-1"))
    assert begun is not None
    assert one.own is not None
    assert torch.allclose(one.own[own], begun[own], atol=1e-5)


def test_with_a_peer_no_other_client_that_stays_is_taught() -> None:
    peer = "client-2"
    seen = Seen()
    replace(fedmm(1, 1), peer=peer).run(replace(scene([], SHARE), cohort=seen))
    assert {name for _, name, _ in seen.asked} == {"client-0", peer}
    seen = Seen()
    stage = replace(prompted_scene([]), cohort=Noting(seen))
    replace(fedgkt(classes=False), peer=peer).run(stage)
    network = prompted_scene([]).cohort._learners[peer].network  # type: ignore[attr-defined]
    distil, back = course(1, 1e-3, "distil", epochs=2), course(0, 0.1, "recover")
    Mimir(distil, back, Distillation(inner=2), network, "warm", peer).run(stage)
    assert seen.asked == [("gated", peer, ()), ("distil", peer, ())]


class Noting(LocalCohort):
    """Notes in another one who is taught."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(prompted_scene([]).cohort._learners)  # type: ignore[attr-defined]
        self._seen = seen

    def mean(self, members, lesson, slots):  # type: ignore[no-untyped-def]
        if lesson.aim != "descriptor":
            self._seen.asked += [(lesson.aim, each.client, ()) for each in members]
        return super().mean(members, lesson, slots)
