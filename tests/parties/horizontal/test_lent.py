"""One client's whole model on another one's rows, and ways to forget for one client alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from clients import context, row_source
from five_clients import CONFIG, cohort, local, prepared, untouched
from local_cohort import LocalCohort
from test_data_free_methods import SHARE, Seen, fedgkt, fedmm, prompted_context, round_plan
from test_figures import Here
from test_personal import PLANS, build

from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from parties.common.shared_randomness import torch_seed
from parties.horizontal.engine.aggregation import add_personal_parameters
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.evaluation.whole_model import (
    BY_CLIENT_FORGOTTEN,
    BY_CLIENT_RETAINED,
    WholeModelEvaluation,
)
from parties.horizontal.local.local_task import DistillationPlan, LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.local.personalisation import (
    initial_personal,
    parameter_mask,
    personalisation_of,
)
from parties.horizontal.methods.mimir import Mimir
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort

LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
PROMPTS = CONFIG.replace(
    "limits =",
    'personal = { kind = "mimir" }\nevaluation = { evaluator = "client-3" }\n'
    'unlearning = { method = "fine-tune", compare = [], fine_tune = { rounds = 1 } }\nlimits =',
)
REFUSED = {
    "nobody": (
        'evaluation.evaluator="client-9"',
        "evaluation.evaluator must name a remaining client",
    ),
    "who leaves": (
        'evaluation.evaluator="client-0"',
        "must name a remaining client, and 'client-0'",
    ),
    "a peer who leaves": (
        'unlearning.target_client="client-0"',
        "unlearning.target_client must name a remaining client",
    ),
    "all who have a class": ('unlearn=[{name="x", classes=["1"]}]', "must name a remaining client"),
    "secure sums": ('aggregation.kind="masks"', "needs a single client.s model"),
    "a model that needs rows": ('personal={kind="gpfl"}', "sends parameters, and with"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_cannot_lend_is_refused(tmp_path: Path, case: str) -> None:
    change, told = REFUSED[case]
    (tmp_path / "wards.toml").write_text(PROMPTS)
    with pytest.raises(ConfigError, match=told):
        read_horizontal(tmp_path / "wards.toml", (change,))


def test_rows_of_who_leaves_are_measured_by_who_stays() -> None:
    """Two descriptors: each client's own, unless a model is measured as it was sent."""
    stage = prompted_context([])
    gone, stays = stage.leaving[0].client, stage.remaining[0]
    client_tasks = stage.cohort._client_tasks  # type: ignore[attr-defined]
    client_tasks[gone].client_data.forgotten = torch.arange(40).numpy()
    found = WholeModelEvaluation(stays, [gone], LOCAL_TASK).evaluate(stage.cohort, stage.original)
    client_tasks[stays.client].network.descriptor.data.fill_(9.0)  # whatever it was left at
    wanted = client_tasks[stays.client]
    rows, theirs = wanted.client_data, client_tasks[gone].client_data
    wanted.client_data = replace(rows, train=theirs.train.take(theirs.forgotten))
    assert found[BY_CLIENT_FORGOTTEN] == {gone: wanted.evaluate("learn", stage.original)}
    wanted.client_data = rows
    assert found[BY_CLIENT_RETAINED] == {stays.client: wanted.evaluate("retained", stage.original)}
    own = client_tasks[gone].evaluate("forgotten", stage.original)
    assert own.histogram != found[BY_CLIENT_FORGOTTEN][gone].histogram


def test_the_whole_model_has_what_is_the_client_s_own() -> None:
    stage = prompted_context([])
    gone = stage.leaving[0]
    told = add_personal_parameters(stage.cohort, [gone], LOCAL_TASK, stage.original)
    own = parameter_mask(stage.cohort._client_tasks[gone.client].network, ("descriptor",))  # type: ignore[attr-defined]
    assert torch.allclose(told[own], -stage.original[own], atol=1e-6)
    assert torch.equal(told[~own], stage.original[~own])


def test_over_lines_a_model_is_measured_as_it_was_sent(tmp_path: Path) -> None:
    ready = prepared(tmp_path, PROMPTS)
    model = initial_parameters(ready[0].agreement, "original")
    with cohort(ready, [], untouched) as remote:
        sent = remote.evaluate(remote.clients, "learn", model, "sent")
        own = remote.evaluate(remote.clients, "learn", model)
    here = local(ready)
    for each in here._client_tasks.values():
        each.personalisation = personalisation_of(ready[0].agreement, each.network)
    assert sent == here.evaluate(here.clients, "learn", model, "sent")
    assert own == here.evaluate(here.clients, "learn", model)
    assert all(sent[name] != own[name] for name in sent), "each has drawn its own descriptor"


def test_a_run_tells_what_the_lent_model_makes_of_the_leaving_rows(tmp_path: Path) -> None:
    config, place = prepared(tmp_path, PROMPTS)
    party = set_up_horizontal_party(config, "server", place, lambda _: None)
    source, spokes = row_source(tmp_path / "wards.toml", (), None), config.agreement.spokes
    pool = PoolCohort(spokes, source, Here(), 1.0)
    story = FederatedServer(
        party, pool, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    for method in story["requests"][0]["methods"]:
        known = {each["name"]: each for each in method["figures"]}
        for name in (BY_CLIENT_FORGOTTEN, BY_CLIENT_RETAINED):
            assert 0 <= known[name]["value"] <= 1
            assert (known[name]["retrain_mean"] is None) is (method["name"] == "retrain")
        scores = method["scores"]
        assert list(scores[BY_CLIENT_RETAINED]) == ["client-3"]
        assert (
            scores[BY_CLIENT_RETAINED]["client-3"]["correct"]
            == scores["retained"]["client-3"]["correct"]
        )


def test_every_client_draws_its_own_beginning() -> None:
    net = build("mimir")
    plan = replace(PLANS["mimir"], spread=2.0)
    own = parameter_mask(net, plan.prefixes)
    some = [initial_personal(net, plan, torch_seed(0, "own", name)) for name in ("a", "b", "a")]
    first, other, again = (each[own] for each in some if each is not None)
    assert torch.equal(first, again)
    assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.6
    assert 1.0 < float(first.std()) < 3.0
    assert initial_personal(net, PLANS["mimir"], 0) is None


def test_a_first_lesson_begins_at_what_the_client_drew() -> None:
    net = build("mimir")
    model = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    plan = replace(PLANS["mimir"], spread=2.0)
    client_data = prompted_context([]).cohort._client_tasks["client-1"].client_data  # type: ignore[attr-defined]
    one = NetworkClientTask("client-1", net, client_data, 0, plan)
    one.run_task("learn", replace(LOCAL_TASK, learning_rate=1e-9), {"model": model})
    own = parameter_mask(net, plan.prefixes)
    begun = initial_personal(net, plan, torch_seed(0, "own", "client-1"))
    assert begun is not None
    assert one.personal is not None
    assert torch.allclose(one.personal[own], begun[own], atol=1e-5)


def test_with_a_peer_no_other_client_that_stays_is_taught() -> None:
    peer = "client-2"
    seen = Seen()
    replace(fedmm(1, 1), target_client=peer).run(replace(context([], SHARE), cohort=seen))
    assert {name for _, name, _ in seen.asked} == {"client-0", peer}
    seen = Seen()
    stage = replace(prompted_context([]), cohort=Noting(seen))
    replace(fedgkt(classes=False), target_client=peer).run(stage)
    network = prompted_context([]).cohort._client_tasks[peer].network  # type: ignore[attr-defined]
    distil, back = round_plan(1, 1e-3, "distil", epochs=2), round_plan(0, 0.1, "recover")
    Mimir(distil, back, DistillationPlan(student_steps=2), network, "warm", peer).run(stage)
    assert seen.asked == [("gated", peer, ()), ("distil", peer, ())]


class Noting(LocalCohort):
    """Notes in another one who is taught."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(prompted_context([]).cohort._client_tasks)  # type: ignore[attr-defined]
        self._seen = seen

    def mean_update(self, members, task, slots):  # type: ignore[no-untyped-def]
        if task.aim != "personal-model":
            self._seen.asked += [(task.aim, each.client, ()) for each in members]
        return super().mean_update(members, task, slots)
