"""Evaluation of one client's whole model on rows of others, and methods with a target client."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from clients import context, row_source
from five_clients import CONFIG, connected_cohort, local_cohort, prepare, unchanged_line
from local_cohort import LocalCohort
from local_run import unlearned_model
from test_data_free_methods import (
    SHARE,
    RecordingCohort,
    fedgkt,
    fedmm,
    prompted_context,
    round_plan,
)
from test_personalisation import PLANS, build
from test_request_metrics import InProcessWorkers

from configs.config_file import read_config
from configs.errors import ConfigError
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
from parties.horizontal.methods.mimir import Mimir, MimirSettings
from parties.horizontal.registry import SCHEMA as HORIZONTAL
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
    "unknown client": (
        'evaluation.evaluator="client-9"',
        "evaluation.evaluator must name a client whose rows no request forgets",
    ),
    "leaving client": (
        'evaluation.evaluator="client-0"',
        "must name a client whose rows no request forgets .got 'client-0'",
    ),
    "leaving target client": (
        'unlearning.target_client="client-0"',
        "unlearning.target_client must name a client whose rows no request forgets",
    ),
    "all clients with a class": (
        'unlearn=[{name="x", classes=["1"]}]',
        "must name a client whose rows no request forgets",
    ),
    "secure sums": ('aggregation.kind="masks"', "needs the model of one client"),
    "a model that needs rows": ('personal={kind="gpfl"}', "depends on the client's own rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_client_that_cannot_send_its_model_is_refused(tmp_path: Path, case: str) -> None:
    change, message = REFUSED[case]
    (tmp_path / "wards.toml").write_text(PROMPTS)
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "wards.toml", HORIZONTAL, (change,))


def test_leaving_rows_are_evaluated_with_a_remaining_client_s_model() -> None:
    """Rows of the leaving client are evaluated with the descriptor of a remaining client."""
    request = prompted_context([])
    leaving, remaining = request.leaving[0].client, request.remaining[0]
    client_tasks = request.cohort._client_tasks  # type: ignore[attr-defined]
    client_tasks[leaving].client_data.forgotten = torch.arange(40).numpy()
    scores = WholeModelEvaluation(remaining, [leaving], LOCAL_TASK).evaluate(
        request.cohort, request.original
    )
    client_tasks[remaining.client].network.descriptor.data.fill_(
        9.0
    )  # the evaluation replaces this value
    evaluator = client_tasks[remaining.client]
    rows, theirs = evaluator.client_data, client_tasks[leaving].client_data
    evaluator.client_data = replace(rows, train=theirs.train.take(theirs.forgotten))
    assert scores[BY_CLIENT_FORGOTTEN] == {leaving: evaluator.evaluate("learn", request.original)}
    evaluator.client_data = rows
    assert scores[BY_CLIENT_RETAINED] == {
        remaining.client: evaluator.evaluate("retained", request.original)
    }
    own = client_tasks[leaving].evaluate("forgotten", request.original)
    assert own.histogram != scores[BY_CLIENT_FORGOTTEN][leaving].histogram


def test_whole_model_has_the_client_s_personal_parameters() -> None:
    request = prompted_context([])
    leaving = request.leaving[0]
    model = add_personal_parameters(request.cohort, [leaving], LOCAL_TASK, request.original)
    own = parameter_mask(request.cohort._client_tasks[leaving.client].network, ("descriptor",))  # type: ignore[attr-defined]
    assert torch.allclose(model[own], -request.original[own], atol=1e-6)
    assert torch.equal(model[~own], request.original[~own])


def test_model_is_evaluated_as_sent_over_memory_lines(tmp_path: Path) -> None:
    ready = prepare(tmp_path, PROMPTS)
    model = initial_parameters(ready[0].agreement, "original")
    with connected_cohort(ready, [], unchanged_line) as remote:
        sent = remote.evaluate(remote.clients, "learn", model, "sent")
        own = remote.evaluate(remote.clients, "learn", model)
    in_process = local_cohort(ready)
    for each in in_process._client_tasks.values():
        each.personalisation = personalisation_of(ready[0].agreement, each.network)
    assert sent == in_process.evaluate(in_process.clients, "learn", model, "sent")
    assert own == in_process.evaluate(in_process.clients, "learn", model)
    assert all(sent[name] != own[name] for name in sent), "each client has its own descriptor"


def test_run_records_scores_of_the_evaluator_s_model(tmp_path: Path) -> None:
    config, options = prepare(tmp_path, PROMPTS)
    party = set_up_horizontal_party(config, "server", options, lambda _: None)
    source, spokes = row_source(tmp_path / "wards.toml", (), None), config.agreement.spokes
    pool = PoolCohort(spokes, source, InProcessWorkers(), 1.0)
    metrics = FederatedServer(
        party, pool, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    for method in metrics["requests"][0]["methods"]:
        figures = {each["name"]: each for each in method["figures"]}
        for name in (BY_CLIENT_FORGOTTEN, BY_CLIENT_RETAINED):
            assert 0 <= figures[name]["value"] <= 1
            assert (figures[name]["retrain_mean"] is None) is (method["name"] == "retrain")
        scores = method["scores"]
        assert list(scores[BY_CLIENT_RETAINED]) == ["client-3"]
        assert (
            scores[BY_CLIENT_RETAINED]["client-3"]["correct"]
            == scores["retained"]["client-3"]["correct"]
        )


def test_initial_personal_parameters_depend_on_the_client() -> None:
    net = build("mimir")
    plan = replace(PLANS["mimir"], spread=2.0)
    own = parameter_mask(net, plan.prefixes)
    vectors = [initial_personal(net, plan, torch_seed(0, "own", name)) for name in ("a", "b", "a")]
    first, other, again = (each[own] for each in vectors if each is not None)
    assert torch.equal(first, again)
    assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.6
    assert 1.0 < float(first.std()) < 3.0
    assert initial_personal(net, PLANS["mimir"], 0) is None


def test_first_task_starts_at_the_initial_personal_parameters() -> None:
    net = build("mimir")
    model = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    plan = replace(PLANS["mimir"], spread=2.0)
    client_data = prompted_context([]).cohort._client_tasks["client-1"].client_data  # type: ignore[attr-defined]
    client = NetworkClientTask("client-1", net, client_data, 0, plan)
    client.run_task("learn", replace(LOCAL_TASK, learning_rate=1e-9), {"model": model})
    own = parameter_mask(net, plan.prefixes)
    initial = initial_personal(net, plan, torch_seed(0, "own", "client-1"))
    assert initial is not None
    assert client.personal is not None
    assert torch.allclose(client.personal[own], initial[own], atol=1e-5)


def test_with_a_target_client_no_other_remaining_client_trains() -> None:
    target = "client-2"
    recorder = RecordingCohort()
    unlearned_model(
        replace(fedmm(1, 1), target_client=target), replace(context([], SHARE), cohort=recorder)
    )
    assert {name for _, name, _ in recorder.calls} == {"client-0", target}
    recorder = RecordingCohort()
    request = replace(prompted_context([]), cohort=ForwardingCohort(recorder))
    unlearned_model(replace(fedgkt(classes=False), target_client=target), request)
    network = prompted_context([]).cohort._client_tasks[target].network  # type: ignore[attr-defined]
    distil, recover = round_plan(1, 1e-3, "distil", epochs=2), round_plan(0, 0.1, "recover")
    unlearned_model(
        Mimir(
            distil,
            recover,
            DistillationPlan(student_steps=2),
            network,
            MimirSettings(init="warm"),
            target,
        ),
        request,
    )
    assert recorder.calls == [("gated", target, ()), ("distil", target, ())]


class ForwardingCohort(LocalCohort):
    """Records in another cohort which clients train."""

    def __init__(self, recorder: RecordingCohort) -> None:
        super().__init__(prompted_context([]).cohort._client_tasks)  # type: ignore[attr-defined]
        self._recorder = recorder

    def mean_update(self, members, task, slots):  # type: ignore[no-untyped-def]
        if task.aim != "personal-model":
            self._recorder.calls += [(task.aim, each.client, ()) for each in members]
        return super().mean_update(members, task, slots)
