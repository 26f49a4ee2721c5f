"""Complete runs of language models: simulated, and as processes over mutual TLS."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from configs.config_file import read_config
from models.language.folder import base_model_digest
from models.language.loading import load_language_model
from parties.cli.main import app
from parties.cli.modes import SCHEMAS
from parties.common.errors import PolicyError
from parties.horizontal.simulation.simulate import simulate_federated
from parties.language.engine.merged_model import write_merged_model
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import LANGUAGE_MODE, texts_of_client
from parties.session.simulation import SimulationPlan, simulate_processes
from tests.parties.language.ferries import (
    CONFIG,
    FULL,
    LORA,
    facts,
    json_lines,
    simulation_config,
    write_base,
)

REQUEST = """
[[unlearn]]
name = "gone"
rows = "flagged"
{when}

[unlearning]
method = "primal-dual"
compare = ["npo"]
npo = {{ unlearn = {{ rounds = 1 }} }}
primal_dual = {{ unlearn = {{ rounds = 2 }} }}

[simulation]
workers = 1
"""


def ignore(_event: Any) -> None:
    """Ignore an event."""


def figures(metrics: dict[str, Any], name: str) -> dict[str, Any]:
    methods = metrics["requests"][0]["methods"]
    return {
        each["name"]: next((f["value"] for f in each["figures"] if f["name"] == name), None)
        for each in methods
    }


@pytest.mark.slow
def test_a_simulated_run_forgets_compared_with_retrain(world: Path, tmp_path: Path) -> None:
    path = simulation_config(world, REQUEST.format(when=""), FULL, rounds=30)
    metrics = simulate_federated(
        LANGUAGE_MODE, SimulationPlan(path, (), tmp_path, None, schemas=SCHEMAS), ignore
    )
    known = figures(metrics, "text_probability")
    assert list(known) == ["original", "primal-dual", "npo", "retrain"]
    assert known["original"] > 1.3 * known["retrain"]
    assert known["npo"] < known["original"]
    assert known["primal-dual"] < known["original"]
    assert metrics["run"]["parameters"] == size(world)
    rounds = metrics["requests"][0]["methods"][1]["steps"]
    assert [each["threshold"] for each in rounds] == [rounds[0]["threshold"]] * 2
    raised = 0.5 * (rounds[0]["threshold"] - rounds[0]["score"])
    assert rounds[1]["multiplier"] == pytest.approx(
        min(10, max(0, rounds[0]["multiplier"] + raised))
    )
    report = tmp_path / "ferries" / "report.html"
    assert "Primal-dual" in report.read_text()
    report.unlink()
    again = CliRunner().invoke(app, ["report", str(tmp_path / "ferries")])
    assert again.exit_code == 0, again.output
    assert "Primal-dual" in again.output
    assert "Primal-dual" in report.read_text()
    merged = tmp_path / "merged"
    write_merged_model(world / "base", tmp_path / "ferries" / "server", merged)
    saved = load_file(tmp_path / "ferries" / "server" / "model.safetensors")
    weights = load_language_model(merged).model.state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(weights[name], saved[name])


def size(world: Path) -> int:
    model = load_language_model(world / "base").model
    return sum(each.numel() for each in model.parameters())


@pytest.mark.slow
def test_a_request_during_the_training_runs_then_and_products_are_aggregated(
    world: Path, tmp_path: Path
) -> None:
    lora = LORA + '\nmerging = "product_svd"'
    path = simulation_config(world, REQUEST.format(when="round = 2"), lora, rounds=3)
    metrics = simulate_federated(
        LANGUAGE_MODE, SimulationPlan(path, (), tmp_path, None, schemas=SCHEMAS), ignore
    )
    assert [each["number"] for each in metrics["training"]["steps"]] == [1, 2, 3]
    gaps = metrics["run"]["merging_gaps"]
    assert len(gaps) == 3 + 2 + 1 + 2, "training, two methods, and a Retrain of two rounds"
    assert all(0 <= each < 1 for each in gaps)
    assert max(gaps) > 0
    rounds = {each["name"]: len(each["steps"]) for each in metrics["requests"][0]["methods"]}
    assert rounds["retrain"] == 2


@pytest.mark.slow
def test_secure_sums_that_would_reveal_a_few_clients_are_refused(
    world: Path, tmp_path: Path
) -> None:
    """All trainings start from one model, so two sums would differ by those few clients only."""
    masks = REQUEST.format(when="") + '\n[aggregation]\nkind = "masks"\n'
    path = simulation_config(world, masks, LORA, rounds=1)
    with pytest.raises(PolicyError, match="names rows of only 2 of the clients that"):
        simulate_federated(
            LANGUAGE_MODE, SimulationPlan(path, (), tmp_path, None, schemas=SCHEMAS), ignore
        )
    metrics = simulate_federated(
        LANGUAGE_MODE,
        SimulationPlan(path, ("seed=2",), tmp_path / "other", None, schemas=SCHEMAS),
        ignore,
    )
    assert len(metrics["requests"][0]["members"]["leaving"]) == 3


@pytest.mark.smoke
@pytest.mark.slow
def test_processes_with_their_own_texts_save_adapters_only(
    tmp_path: Path,
) -> None:
    base = write_base(tmp_path)
    (tmp_path / "ash.jsonl").write_text(json_lines(facts()[:20]))
    (tmp_path / "elm.jsonl").write_text(json_lines(facts()[20:]))
    settings = '[[unlearn]]\nname = "elm-goes"\nclient = "elm"\n[unlearning]\ncompare = []'
    text = CONFIG.format(
        settings=settings + "\nnpo = { unlearn = { rounds = 1 } }",
        digest=f'digest = "{base_model_digest(base)}"',
        tuning=LORA,
        rounds=2,
    )
    for name in ("ash", "elm"):
        text += f'\n[parties.{name}]\nrole = "client"\n[settings.{name}]\nbase = "base"\n'
        text += f'data = {{ kind = "jsonl", path = "{name}.jsonl" }}\n'
    path = tmp_path / "ferries.toml"
    path.write_text(text)
    metrics = simulate_processes(
        SimulationPlan(path, (), tmp_path / "runs", None, schemas=SCHEMAS), ignore
    )
    methods = [each["name"] for each in metrics["requests"][0]["methods"]]
    assert methods == ["original", "npo", "retrain"]
    trained = sum(
        each.trained for each in texts_of_client(read_config(path, LANGUAGE), "elm", tmp_path)
    )
    assert 10 <= trained < 20
    assert metrics["requests"][0]["purged"] == {"ash": [], "elm": [f"{trained} rows"]}
    d = 2 * 4 * (4 * 64 + 3 * 96)
    assert metrics["run"]["parameters"] == d
    gaps = metrics["run"]["merging_gaps"]
    assert len(gaps) == 2 + 1 + 2, "training, npo, and a Retrain of a single client"
    assert min(gaps[:2]) > 1e-4
    assert [each > 0 for each in metrics["run"]["merging_distances"]] == [each > 0 for each in gaps]
    assert max(gaps[3:]) < 1e-12
    for name in ("server", "ash"):
        written = load_file(tmp_path / "runs" / "ferries" / name / "model.safetensors")
        assert sum(each.numel() for each in written.values()) == d
        assert all(".lora_" in each for each in written)


def test_the_tofu_config_is_valid() -> None:
    path = Path(__file__).parents[3] / "configs" / "llm" / "tofu.toml"
    agreement = read_config(path, LANGUAGE).agreement
    assert agreement.unlearning.method == "primal-dual"
    assert agreement.spokes == ("client-0", "client-1", "client-2")


def test_the_oblivionis_config_is_valid() -> None:
    path = Path(__file__).parents[3] / "configs" / "llm" / "oblivionis.toml"
    changes = ['training.rule.kind="fedadam"', 'settings.client.data.forget="forget05"']
    changes += ['settings.server.benchmark.forget="forget05"']
    agreement = read_config(path, LANGUAGE, changes).agreement
    assert (len(agreement.spokes), agreement.training.share) == (30, 0.1)
    assert agreement.tuning.kind == "lora"
