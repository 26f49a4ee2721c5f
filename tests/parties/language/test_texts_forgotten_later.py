"""A client of a language model requests after the run that its texts are forgotten."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parties.horizontal.service.kept_model import federated_models
from parties.requests.events import VerifiedBody
from tests.parties.language.kept_ferries import CLIENTS, write_kept_ferries


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
