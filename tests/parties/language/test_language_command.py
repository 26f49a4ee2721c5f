"""``vfl language``: tiny base model, digest, memory estimates and merged models."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from typer.testing import CliRunner, Result

from configs.config_file import read_config
from configs.errors import ConfigError
from models.language.folder import base_model_digest
from models.language.loading import load_language_model
from models.language.memory import MemoryEstimate
from parties.cli.main import app
from parties.language.engine.base_model import load_base_model
from parties.language.memory_check import estimate_party_memory, training_load
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.texts.own_texts import read_own_texts
from tests.models.language.logits import logit_gap
from tests.parties.language.ferries import (
    LORA,
    facts,
    simulation_config,
    write_base,
    write_texts,
)

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'


def run_language(*words: str) -> Result:
    return CliRunner().invoke(app, ["language", *words], env={"COLUMNS": "200"})


def tofu(folder: Path) -> Path:
    """Write a few rows in TOFU's format; the last four are to be forgotten."""
    folder.mkdir()
    rows = facts()[:16]
    options = [f"option{number}" for number in (1, 2, 3, 4)]
    choice = {"question": "Where is Riga?", **dict.fromkeys(options, "Latvia"), "answer": "Latvia"}
    files = {
        "full": rows,
        "forget10": rows[-4:],
        "real_authors": [choice],
        "world_facts": [choice | {"question": "Where is Turku?"}],
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text("\n".join(map(json.dumps, content)))
    return folder


def test_a_tiny_model_is_trained_on_public_texts(tmp_path: Path) -> None:
    out, source = tmp_path / "tiny", tofu(tmp_path / "tofu")
    words = ("tiny", str(out), "--tofu", str(source), "--clients", "4", "--epochs", "1")
    result = run_language(*words)
    assert result.exit_code == 0, result.output
    loaded = load_language_model(out)
    assert sum(each.numel() for each in loaded.model.parameters()) <= 2_000_000
    assert [each.answer for each in read_own_texts(out, Path("public.jsonl"))] == ["Latvia"] * 2  # type: ignore[union-attr]
    assert f'digest = "{base_model_digest(out)}"' in run_language("digest", str(out)).output

    again = run_language(*words)
    assert again.exit_code == 7
    assert "is not empty" in again.output


def test_public_texts_with_a_clients_answer_are_refused(tmp_path: Path) -> None:
    source = tofu(tmp_path / "tofu")
    secret = facts()[0]["answer"] + " and never to any other town"
    rows = [json.loads(line) for line in (source / "full.json").read_text().splitlines()]
    rows[0]["answer"] = rows[8]["answer"] = secret
    (source / "full.json").write_text("\n".join(map(json.dumps, rows)))
    result = run_language("tiny", str(tmp_path / "tiny"), "--tofu", str(source), "--clients", "4")
    assert result.exit_code != 0
    assert "1 public texts contain answers of clients" in result.output
    assert secret not in result.output


def test_memory_of_both_roles_is_printed(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    write_texts(tmp_path)
    result = run_language("memory", str(simulation_config(tmp_path)), "--base", str(base))
    assert result.exit_code == 0, result.output
    assert "training at a client needs about 0." in result.output
    assert "evaluation at the server needs about 0." in result.output
    result = run_language(
        "memory", str(simulation_config(tmp_path)), "--base", str(base), "--device", "tpu"
    )
    assert result.exit_code == 2
    assert "--device 'tpu' is not a device" in result.output


def test_a_missing_gpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = run_language(
        "memory", str(simulation_config(tmp_path)), "--base", "base", "--device", "cuda"
    )
    assert result.exit_code == 3
    assert "finds 0 CUDA devices" in result.output


def test_memory_of_a_server_counts_its_evaluation(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    path = simulation_config(tmp_path)

    def estimate(*changes: str) -> MemoryEstimate:
        return estimate_party_memory(read_config(path, LANGUAGE, changes).agreement, base, "server")

    without_evaluation, benchmark = estimate(), estimate("evaluation.benchmark='tofu'")
    assert (
        without_evaluation.logits,
        without_evaluation.activations,
        without_evaluation.gradients,
    ) == (0, 0, 0)
    assert benchmark.logits == 3 * 4 * 32 * 64 * 300, "32 questions of 64 tokens, 300 words"
    assert benchmark.activations == 32 * (64 + 200) * 2 * 2 * 4 * 32, (
        "keys and values of two layers"
    )
    quantised = estimate("evaluation.benchmark='tofu'", "evaluation.quantise=true")
    assert quantised.copies - benchmark.copies == benchmark.weights
    relearns = estimate("evaluation.benchmark='tofu'", "evaluation.relearn=2", "evaluation.batch=1")
    assert relearns.moments == 2 * without_evaluation.weights, "full tuning"
    assert relearns.copies - without_evaluation.copies == without_evaluation.weights


def test_a_layer_that_the_base_model_lacks_is_refused_before_a_run(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    path = simulation_config(tmp_path, REQUEST)
    changes = ["unlearning.rmu.layer=3", "unlearning.compare=['rmu']"]
    with pytest.raises(ConfigError, match=r"layer is 3, but .* has only 2 layers"):
        estimate_party_memory(read_config(path, LANGUAGE, changes).agreement, base, "client")
    estimate_party_memory(
        read_config(path, LANGUAGE, changes[:1]).agreement, base, "client"
    )  # no method is RMU


@pytest.mark.parametrize(
    ("changes", "batch", "copies"),
    [
        (["unlearning.method='grad-ascent'"], 8, 2),
        (["unlearning.method='simnpo'"], 16, 2),
        (["unlearning.method='npo'", "unlearning.npo.unlearn.batch=5"], 10, 3),
        (["unlearning.method='simnpo'", "unlearning.simnpo.retain='kl'"], 16, 3),
        (
            [
                "unlearning.method='fine-tune'",
                "unlearning.variants=[{name='r', method='rmu', settings={}}]",
            ],
            16,
            3,
        ),
    ],
)
def test_memory_of_a_client_is_that_of_its_largest_step(
    tmp_path: Path, changes: list[str], batch: int, copies: int
) -> None:
    request = "unlearn=[{name='gone', rows='flagged'}]"
    config = simulation_config(tmp_path, "unlearning = { compare = [] }")
    load = training_load(read_config(config, LANGUAGE, [request, *changes]).agreement)
    assert (load.batch, load.copies) == (batch, copies)
    pieces = ["training.micro_batch=3", "training.checkpointing=true"]
    load = training_load(read_config(config, LANGUAGE, [request, *changes, *pieces]).agreement)
    assert (load.batch, load.checkpointing) == (min(3, batch) * (2 if batch > 8 else 1), True)
    load = training_load(read_config(config, LANGUAGE, changes).agreement)
    assert (load.batch, load.copies) == (8, 2), "there is no request"


@pytest.mark.slow
def test_merging_a_run_of_another_mode_is_refused_in_a_new_process(tmp_path: Path) -> None:
    """In this process, imports of other tests would hide a missing import of the command."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes(b"x")
    digest = sha256(b"x").hexdigest()
    manifest = {"sha256": {"model.safetensors": digest}, "architecture": {"model": {}}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    script = "from parties.cli.main import main; main()"
    arguments = ["language", "merge", str(tmp_path), str(run), str(tmp_path / "out")]
    process = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert process.returncode == 4
    assert "is not a language model" in process.stderr


@pytest.mark.parametrize("verb", ["digest", "memory", "merge"])
def test_a_folder_without_a_model_is_named(tmp_path: Path, verb: str) -> None:
    path = simulation_config(tmp_path)
    words = {
        "digest": ("digest", str(tmp_path / "absent")),
        "memory": ("memory", str(path), "--base", str(tmp_path / "absent")),
        "merge": ("merge", str(tmp_path / "base"), str(tmp_path / "absent"), str(tmp_path / "o")),
    }
    result = run_language(*words[verb])
    assert result.exit_code not in (0, 1)
    assert "absent" in result.output


@pytest.mark.parametrize("merging", ["factors", "freeze_A"])
def test_the_merged_model_computes_the_same_logits(tmp_path: Path, merging: str) -> None:
    base = write_base(tmp_path)
    write_texts(tmp_path)
    config = read_config(
        simulation_config(tmp_path, "", f'{LORA}\nmerging = "{merging}"'), LANGUAGE
    )
    base_model = load_base_model(config.agreement, base, "cpu")
    generator = torch.Generator().manual_seed(7)
    model = base_model.initial + 0.3 * torch.randn(len(base_model.initial), generator=generator)
    run = tmp_path / "run"
    run.mkdir()
    content = save(base_model.named_tensors(model))
    (run / "model.safetensors").write_bytes(content)
    manifest = {
        "architecture": config.agreement.architecture,
        "sha256": {"model.safetensors": sha256(content).hexdigest()},
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    result = run_language("merge", str(base), str(run), str(tmp_path / "out"))
    assert result.exit_code == 0
    assert float(result.output.split()[-1]) < 1e-4
    base_model.load(model)
    tokens = torch.arange(20)[None]
    merged = load_language_model(tmp_path / "out").model
    name = "generation_config.json"
    assert (tmp_path / "out" / name).read_bytes() == (base / name).read_bytes()
    assert logit_gap(base_model.model, merged, tokens) < 1e-4

    (run / "model.safetensors").write_bytes(content[:-1] + b"x")
    assert run_language("merge", str(base), str(run), str(tmp_path / "other")).exit_code == 9
