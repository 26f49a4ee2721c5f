"""A client of a language model requests after the run that its texts are forgotten."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parties.horizontal.service.kept_model import federated_models
from parties.report.record import read_record
from parties.requests.events import VerifiedBody
from tests.parties.client_federation import ClientFederation
from tests.parties.language.kept_ferries import CLIENTS, TextKills, write_kept_ferries


@pytest.mark.slow
def test_a_client_requests_after_the_run_that_its_texts_are_forgotten(tmp_path: Path) -> None:
    federation, out = write_kept_ferries(tmp_path), tmp_path / "runs"
    federation.train(out)
    before = load_file(federation.state("quay", out) / "model.safetensors")
    request = federation.ask("pier", out, fraction="0.5")
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    count = federation.view("quay", out, request).count
    assert count is not None
    assert 4 <= count <= 10
    after = [load_file(federation.state(name, out) / "model.safetensors") for name in CLIENTS]
    assert any(not torch.equal(before[key], after[0][key]) for key in before)
    assert all(torch.equal(after[0][key], after[1][key]) for key in before)
    for name in federation.roles:
        (stored,) = federated_models(federation.party(name, out)).files()  # type: ignore[arg-type]
        assert stored.version is not None
        assert (stored.number, stored.version.requests) == (2, (request,))
    body = next(
        each.body for each in federation.events("quay", out) if isinstance(each.body, VerifiedBody)
    )
    assert body.level == "quick"
    for kind in ("retained", "test", "forgotten"):
        assert 0 < float(body.audit[f"{kind}_probability_after"]) < 1
    receipt = json.loads(federation.receipts(out, request)["pier"].read_bytes())
    (result,) = receipt["audit"]["results"]
    assert result["metric"] == "loss-of-retained-answer-probability"
    assert result["passed"]


class ComparedTextKills(TextKills):
    """The lives of a request for texts that is compared with Retrains."""

    changes = ('requests.audit="full"', "unlearning.retrains=3")


@pytest.mark.slow
def test_a_request_for_texts_is_compared_with_retrains(tmp_path: Path) -> None:
    kills = ComparedTextKills(tmp_path / "ferries")
    federation, out = kills.federation, tmp_path / "ferries" / "quiet"
    (body,) = verified(federation, out)
    assert (body.level, body.audit["retrains"]) == ("full", "3")
    for name in ("retained", "test", "forgotten"):
        assert 0 < float(body.audit[f"{name}_probability_retrain"]) < 1
    receipt = json.loads(federation.receipts(out, kills.request)["pier"].read_bytes())
    metrics = [each["metric"] for each in receipt["audit"]["results"]]
    assert metrics == [
        "loss-of-retained-answer-probability",
        "loss-of-retained-answer-probability-against-retrains",
    ]
    assert "odds_distance" in body.audit  # the Retrains of so few texts hardly differ
    folder = federation.state(federation.hub, out) / "comparisons" / kills.request
    (request,) = read_record(json.loads((folder / "metrics.json").read_text())).requests
    names = [each.name for each in request.methods]
    assert names == ["original", "npo", "retrain", "retrain-2", "retrain-3"]
    at = [(name, int(len(kills.names[name]) * 0.6)) for name in (federation.hub, "quay")]
    for life in kills.run([(each,) for each in at]):  # in the Retrains
        assert not life.failures, (life.kills, life.names, life.failures)
        assert verified(federation, tmp_path / "ferries" / "killed") == [body]


def verified(federation: ClientFederation, out: Path) -> list[VerifiedBody]:
    """What the journal of quay says about the models after requests."""
    return [
        each.body for each in federation.events("quay", out) if isinstance(each.body, VerifiedBody)
    ]
