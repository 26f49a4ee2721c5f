"""A client of a language model requests after the run that its texts are forgotten."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.language.folder import base_model_digest
from parties.horizontal.service.kept_model import federated_models
from parties.requests.events import VerifiedBody
from tests.parties.client_federation import ClientFederation
from tests.parties.language.ferries import CONFIG, LORA, facts, json_lines, write_base

CLIENTS = ("pier", "quay")
KEPT = """
requests = { keep = "model" }

[parties.pier]
role = "client"

[parties.quay]
role = "client"

[unlearning]
method = "npo"
npo = { unlearn = { rounds = 1 } }

[limits]
join_seconds = 60.0
idle_seconds = 60.0
"""


def ferries(folder: Path) -> ClientFederation:
    digest = f'digest = "{base_model_digest(write_base(folder))}"'
    rows, data = facts(), ""
    for at, name in enumerate(CLIENTS):
        (folder / f"{name}.jsonl").write_text(json_lines(rows[at::2]))
        data += f'\n[settings.{name}]\nbase = "base"\n'
        data += f'data = {{ kind = "jsonl", path = "{name}.jsonl" }}\n'
    text = CONFIG.format(settings=KEPT, digest=digest, tuning=LORA, rounds=1)
    config = folder / "ferries.toml"
    config.write_text(text + data)
    return ClientFederation(folder, config=config)


@pytest.mark.slow
def test_a_client_requests_after_the_run_that_its_texts_are_forgotten(tmp_path: Path) -> None:
    federation, out = ferries(tmp_path), tmp_path / "runs"
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
