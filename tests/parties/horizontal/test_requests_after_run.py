"""Requests of a run with a server after its end: kept models, receipts, and later trainings."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch
from client_federation import CLIENTS, ClientFederation, ClientKills
from safetensors.torch import load_file
from typer.testing import CliRunner

from configs.config_file import canonical_agreement
from configs.errors import ConfigError
from parties.cli.main import app
from parties.cli.modes import read_runnable
from parties.common.errors import PolicyError
from parties.horizontal.service.kept_model import federated_models, read_kept_model, request_of
from parties.report.columns import find_figure
from parties.report.record import MethodRecord, read_record
from parties.requests.events import EventKind, VerifiedBody
from parties.requests.lifecycle import RequestState
from unlearning.receipts.keys import TrustedKey, TrustFile
from unlearning.receipts.verify import verify

CLEAN = 'unlearn=[{name="leaver", client="elm"}]'
ALONE = ("unlearning.compare=[]", "unlearning.retrains=0")


def the_models(federation: ClientFederation, out: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {
        name: load_file(federation.state(name, out) / "model.safetensors")
        for name in federation.roles
    }


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def assert_audited(
    federation: ClientFederation, out: Path, request: str, methods: Sequence[MethodRecord]
) -> None:
    """The journal has the accuracies of a run's record, and the receipt tests the utility."""
    body = next(
        each.body for each in federation.events("elm", out) if isinstance(each.body, VerifiedBody)
    )
    assert body.level == "quick"
    for when, method in zip(("before", "after"), methods, strict=True):
        for kind in ("test", "forgotten"):
            figure = find_figure(method, f"{kind}_accuracy")
            assert figure is not None
            assert body.audit[f"{kind}_{when}"] == f"{figure.value:.4f}"
    figure = find_figure(methods[1], "membership_auc")
    assert figure is not None
    assert body.audit["membership_auc"] == f"{figure.value:.4f}"
    receipt = json.loads(federation.receipts(out, request)["oak"].read_bytes())
    (result,) = receipt["audit"]["results"]
    lost = float(body.audit["validation_before"]) - float(body.audit["validation_after"])
    assert float(result["value"]) == pytest.approx(lost)
    assert (result["threshold"], result["n"]) == ("0.0500", int(body.audit["validation_rows"]))


@pytest.mark.slow
def test_a_model_that_loses_too_much_is_not_delivered(tmp_path: Path) -> None:
    base = ("training.rounds=20", "training.learning_rate=0.5", "split.validation=0.2")
    ascent = "unlearning.ewc_sga.ascent={rounds=3, epochs=3, learning_rate=0.3, clip=1.0}"
    recover = "unlearning.ewc_sga.recover.rounds=0"
    changes = (*base, 'unlearning.method="ewc-sga"', ascent, recover)
    federation, out = ClientFederation(tmp_path, changes), tmp_path / "runs"
    federation.train(out)
    before = the_models(federation, out)
    request = federation.ask("elm", out)
    label = federation.command("request", "server", out, "--label", "3")[-1]["request"]
    with federation.serve(out) as service:
        federation.wait_note(out, "accuracy on validation rows fell from")
        federation.wait_certified(service, label)  # a label of all clients has no such limit
    view = federation.view("server", out, request)
    assert view.state is RequestState.QUARANTINED
    assert "more than requests.guard allows" in view.reason
    assert not equal(before["server"], the_models(federation, out)["server"])
    other = ClientFederation(tmp_path, (*base, 'unlearning.method="fine-tune"'))
    with other.serve(out) as service:  # as the error says
        other.wait_certified(service, request)


@pytest.mark.slow
def test_a_request_after_the_run_gives_the_model_of_a_request_of_the_run(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path / "later"), tmp_path / "later" / "runs"
    federation.train(out)
    request = federation.ask("elm", out)
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    listed = ClientFederation(tmp_path / "listed", (CLEAN, *ALONE))
    listed.train(tmp_path / "listed" / "runs")
    found = the_models(federation, out)["server"]
    assert equal(found, the_models(listed, tmp_path / "listed" / "runs")["server"])
    record = tmp_path / "listed" / "runs" / "wood" / "metrics.json"
    assert_audited(
        federation, out, request, read_record(json.loads(record.read_bytes())).requests[0].methods
    )
    assert all(equal(found, each) for each in the_models(federation, out).values())


@pytest.mark.slow
def test_requests_of_several_parties_one_after_another(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.train(out)
    first = federation.ask("oak", out, ["3", "4"])
    second = federation.ask("elm", out, fraction="0.5")
    with federation.serve(out) as service:
        for each in (first, second):
            federation.wait_certified(service, each)
    third = federation.ask("elm", out)
    with federation.serve(out) as service:  # all processes are new
        federation.wait_certified(service, third)
    for name in federation.roles:
        party = federation.party(name, out)
        (stored,) = federated_models(party).files()  # type: ignore[arg-type]
        assert stored.version is not None
        assert stored.version.requests == (third,)
        kept = read_kept_model(party)  # type: ignore[arg-type]
        assert kept is not None
        done = [each.name for each in kept.forgotten]
        named = [f"r{each.lower()}" for each in (first, second, third)]
        assert sorted(done) == sorted(named)
        counts = [federation.view(name, out, each).count for each in (first, second, third)]
        assert 0 < counts[0] < 60  # type: ignore[operator]
        assert abs(counts[1] - counts[2]) <= 1  # type: ignore[operator]  # the second half
    with federation.desk("server", out) as desk:
        keys = [TrustedKey(party=n, public_key=key) for n, key in desk.keys.known.items()]
    trust = TrustFile(federation="wood", keys=tuple(keys))
    for each in (first, second, third):
        (content,) = {path.read_bytes() for path in federation.receipts(out, each).values()}
        assert not verify(content, trust).exit_code


@pytest.mark.slow
def test_a_later_training_leaves_the_forgotten_rows_out(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.train(out)
    request = federation.ask("elm", out, ["3"])
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    federation.train(out)
    assert "1 earlier requests to forget are left out" in federation.notes(out)
    for name in federation.roles:
        newest = federated_models(federation.party(name, out)).newest_version()  # type: ignore[arg-type]
        assert newest is not None
        assert newest.version is not None
        assert (newest.number, newest.version.made_by) == (3, "training")
    kept = read_kept_model(federation.party("elm", out))  # type: ignore[arg-type]
    assert kept is not None
    assert [each.name for each in kept.forgotten] == [f"r{request.lower()}"]


@pytest.mark.slow
def test_one_kill_at_each_of_some_boundaries(tmp_path: Path) -> None:
    kills = ClientKills(tmp_path / "wood")
    lives = kills.single()
    assert len(lives) > 500
    for life in kills.run(lives[:6]):
        assert not life.failures, (life.kills, life.names, life.failures)


@pytest.mark.slow
@pytest.mark.parametrize("restored", [("server",), ("elm",), ("server", "ash", "elm", "oak")])
def test_a_restored_backup_forgets_again(tmp_path: Path, restored: tuple[str, ...]) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.train(out)
    requests = [federation.ask("elm", out, fraction="0.5"), federation.ask("oak", out, ["3"])]
    for name in federation.roles:  # a backup from before would introduce its key again
        with federation.desk(name, out):
            pass
    shutil.copytree(out, tmp_path / "backup")
    with federation.serve(out) as service:
        for each in requests:
            federation.wait_certified(service, each)
    quiet = the_models(federation, out)
    for name in restored:
        shutil.rmtree(federation.state(name, out))
        shutil.copytree(federation.state(name, tmp_path / "backup"), federation.state(name, out))
    third = federation.ask("ash", out)
    with federation.serve(out) as service:
        for each in (*requests, third):
            federation.wait_certified(service, each)
    left = the_models(federation, out)
    assert all(equal(left["server"], each) for each in left.values())
    assert not equal(left["server"], quiet["server"])
    for name in federation.roles:
        kept = read_kept_model(federation.party(name, out))  # type: ignore[arg-type]
        assert kept is not None
        done = [each.name for each in kept.forgotten]
        assert sorted(done) == sorted(f"r{each.lower()}" for each in (*requests, third))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_guard_that_refuses_the_second_request_of_a_restored_model_has_a_way_out(
    tmp_path: Path,
) -> None:
    """The first request has no guard, because it names a label; its rows are deleted before."""
    base = ("training.rounds=20", "training.learning_rate=0.5", "split.validation=0.2")
    ascent = "unlearning.ewc_sga.ascent={rounds=3, epochs=3, learning_rate=0.1, clip=1.0}"
    harmful = (*base, 'unlearning.method="ewc-sga"', ascent, "unlearning.ewc_sga.recover.rounds=0")
    lenient = ClientFederation(tmp_path, (*harmful, "requests.guard=1.0"))
    federation, out = ClientFederation(tmp_path, harmful), tmp_path / "runs"
    lenient.train(out)
    requests = [lenient.ask("oak", out, ["3"], "0.2"), lenient.ask("elm", out)]
    for name in lenient.roles:
        with lenient.desk(name, out):
            pass
    shutil.copytree(out, tmp_path / "backup")
    with lenient.serve(out) as service:
        for each in requests:
            lenient.wait_certified(service, each)
    shutil.rmtree(lenient.state("server", out))
    shutil.copytree(lenient.state("server", tmp_path / "backup"), lenient.state("server", out))
    with federation.serve(out) as service:
        federation.wait_note(out, "accuracy on validation rows fell from")
        third = federation.ask("ash", out, ["5"])  # a later request goes on
        federation.wait_certified(service, third)
    for each in requests:
        assert federation.view("server", out, each).state is RequestState.QUARANTINED
    other = ClientFederation(tmp_path, (*base, 'unlearning.method="fine-tune"'))
    with other.serve(out) as service:
        for each in requests:
            other.wait_note(out, f"carrying out the requests to forget {each}")
        deadline = monotonic() + 120
        while {other.view("server", out, each).state for each in requests} != {
            RequestState.CERTIFIED
        }:
            assert monotonic() < deadline, other.notes(out)
            sleep(0.5)


def test_a_request_of_another_mode_is_rejected_by_policy(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.state("elm", out).mkdir(parents=True)
    request = federation.record("elm", out, [1, 2])
    view = federation.view("elm", out, request)
    assert view.state is RequestState.REJECTED
    assert "does not have" in view.reason


def test_a_correction_is_refused_by_name(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.state("elm", out).mkdir(parents=True)
    view = federation.view("elm", out, federation.record("elm", out, [1, 2]))
    content = view.content.model_copy(update={"kind": "correction"})
    agreement = read_runnable(federation.config, [], None).agreement
    corrects = replace(view, content=content)
    with pytest.raises(PolicyError, match="names correction"):
        request_of(agreement, corrects)


@pytest.mark.slow
def test_a_request_that_leaves_no_rows_is_put_into_quarantine(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.train(out)
    before = the_models(federation, out)
    requests = [federation.ask(name, out) for name in CLIENTS]
    with federation.serve(out) as service:
        for each in requests[:2]:
            federation.wait_certified(service, each)
        federation.wait_note(out, "no client has rows left to train a model")
    view = federation.view("server", out, requests[2])
    assert view.state is RequestState.QUARANTINED
    assert not equal(before["server"], the_models(federation, out)["server"])


def test_the_canonical_agreement_lists_requests_only_where_they_are_set(tmp_path: Path) -> None:
    kept = read_runnable(ClientFederation(tmp_path).config, [], None).agreement
    plain = kept.model_copy(update={"requests": type(kept.requests)()})
    assert '"requests"' in canonical_agreement(kept)
    assert '"requests"' not in canonical_agreement(plain)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("clients=2", "2 clients are simulated"),
        ('personal={kind="fedper"}', "personal parameters of the clients"),
        ("training.clusters=2", "models of clusters"),
        ("history.every=1", "updates of the training"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, change: str, problem: str) -> None:
    federation = ClientFederation(tmp_path)
    with pytest.raises(ConfigError, match=problem):
        read_runnable(federation.config, [change], None)


@pytest.mark.parametrize(
    ("party", "options", "problem"),
    [
        ("elm", ["--texts", "list.txt"], "--texts does not fit the horizontal mode"),
        ("elm", [], "expected exactly one of --everything, --label"),
        ("elm", ["--everything", "--label", "3"], "expected exactly one of --everything, --label"),
        ("elm", ["--rows", "list.txt", "--id", "digits:1"], "expected exactly one of --everything"),
        ("elm", ["--rows", "list.txt", "--fraction", "0.5"], "--fraction and --seed work only"),
        ("server", ["--everything"], "is the server, which has no rows"),
        ("server", ["--rows", "list.txt"], "is the server, which has no rows"),
        ("elm", ["--label", "x"], "is no class of the agreement"),
        ("elm", ["--everything", "--ground", "whim"], "--ground whim is unknown"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, party: str, options: list[str], problem: str
) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.state(party, out).mkdir(parents=True)
    command = ["unlearn", "request", str(federation.config), "--party", party, "--out", str(out)]
    found = CliRunner().invoke(
        app, [*command, "--certificates", str(federation.keys), *options], catch_exceptions=False
    )
    assert found.exit_code == 2
    assert problem in " ".join(found.output.split())


def test_a_client_records_its_request(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.state("elm", out).mkdir(parents=True)
    command = ["unlearn", "request", str(federation.config), "--party", "elm", "--out", str(out)]
    command += ["--certificates", str(federation.keys), "--label", "3", "--fraction", "0.5"]
    for _ in range(2):  # the same request once
        found = CliRunner().invoke(app, command, catch_exceptions=False)
        assert found.exit_code == 0, found.output
    (view,) = [federation.view("elm", out, each.request) for each in _requested(federation, out)]
    assert (view.content.kind, view.content.classes) == ("client", ("3",))
    assert view.content.fraction == "0.5"


def _requested(federation: ClientFederation, out: Path) -> list:  # type: ignore[type-arg]
    return [each for each in federation.events("elm", out) if each.kind is EventKind.REQUESTED]


def test_an_agreement_that_keeps_nothing_has_no_requests(tmp_path: Path) -> None:
    federation = ClientFederation(tmp_path, ('requests.keep="nothing"',))
    command = ["unlearn", "list", str(federation.config), "--party", "elm"]
    found = CliRunner().invoke(app, [*command, "--set", 'requests.keep="nothing"'])
    assert found.exit_code == 3
    assert "no model is kept for requests" in " ".join(found.output.split())
