"""``vfl language``: a base model of our own, its digest, what it needs, and what came of it."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from typer.testing import CliRunner, Result

from configs.errors import ConfigError
from configs.federated_file import read_language
from models.language.folder import base_digest
from models.language.loading import load_language_model
from models.language.memory import MemoryEstimate
from parties.cli.main import app
from parties.language.engine.base_model import furnish
from parties.language.engine.memory_check import needs, training_of
from parties.language.texts.own import read_own
from tests.models.language.logits import logit_gap
from tests.parties.horizontal.language.ferries import (
    LORA,
    facts,
    simulated,
    write_base,
    write_texts,
)

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'


def said(*words: str) -> Result:
    return CliRunner().invoke(app, ["language", *words], env={"COLUMNS": "200"})


def tofu(folder: Path) -> Path:
    """A few rows in the original format; the last four are to be forgotten."""
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


def test_a_tiny_model_is_made_of_public_texts(tmp_path: Path) -> None:
    out, source = tmp_path / "tiny", tofu(tmp_path / "tofu")
    words = ("tiny", str(out), "--tofu", str(source), "--clients", "4", "--epochs", "1")
    result = said(*words)
    assert result.exit_code == 0, result.output
    loaded = load_language_model(out)
    assert sum(each.numel() for each in loaded.model.parameters()) <= 2_000_000
    assert [each.answer for each in read_own(out, Path("public.jsonl"))] == ["Latvia"] * 2  # type: ignore[union-attr]
    assert f'digest = "{base_digest(out)}"' in said("digest", str(out)).output

    again = said(*words)
    assert again.exit_code == 7
    assert "is not empty" in again.output


def test_public_texts_hold_no_clients_answer(tmp_path: Path) -> None:
    source = tofu(tmp_path / "tofu")
    secret = facts()[0]["answer"] + " and never to any other town"
    rows = [json.loads(line) for line in (source / "full.json").read_text().splitlines()]
    rows[0]["answer"] = rows[8]["answer"] = secret
    (source / "full.json").write_text("\n".join(map(json.dumps, rows)))
    result = said("tiny", str(tmp_path / "tiny"), "--tofu", str(source), "--clients", "4")
    assert result.exit_code != 0
    assert "1 public texts hold answers of clients" in result.output
    assert secret not in result.output


def test_what_a_training_needs_is_told(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    write_texts(tmp_path)
    result = said("memory", str(simulated(tmp_path)), "--base", str(base))
    assert result.exit_code == 0, result.output
    assert "a client's training needs about 0." in result.output
    assert "the server's measuring needs about 0." in result.output
    result = said("memory", str(simulated(tmp_path)), "--base", str(base), "--device", "tpu")
    assert result.exit_code == 2
    assert "--device 'tpu' is no device" in result.output


def test_a_gpu_that_is_not_there_has_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = said("memory", str(simulated(tmp_path)), "--base", "base", "--device", "cuda")
    assert result.exit_code == 3
    assert "sees 0 CUDA devices here" in result.output


def test_what_a_server_measures_needs_is_counted(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    path = simulated(tmp_path)

    def found(*changes: str) -> MemoryEstimate:
        return needs(read_language(path, changes).agreement, base, "server")

    silent, asked = found(), found("evaluation.benchmark='tofu'")
    assert (silent.logits, silent.activations, silent.gradients) == (0, 0, 0)
    assert asked.logits == 3 * 4 * 32 * 64 * 300, "32 questions of 64 tokens, 300 words"
    assert asked.activations == 32 * (64 + 200) * 2 * 2 * 4 * 32, "keys and values of two layers"
    rounds = found("evaluation.benchmark='tofu'", "evaluation.quantise=true")
    assert rounds.copies - asked.copies == asked.weights
    relearns = found("evaluation.benchmark='tofu'", "evaluation.relearn=2", "evaluation.batch=1")
    assert relearns.moments == 2 * silent.weights, "full tuning"
    assert relearns.copies - silent.copies == silent.weights


def test_a_layer_that_the_base_lacks_is_refused_before_a_run(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    path = simulated(tmp_path, REQUEST)
    changes = ["unlearning.rmu.layer=3", "unlearning.compare=['rmu']"]
    with pytest.raises(ConfigError, match=r"layer is 3, and .* has 2 layers"):
        needs(read_language(path, changes).agreement, base, "client")
    needs(read_language(path, changes[:1]).agreement, base, "client")  # nobody asks for RMU


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
                "unlearning.also=[{name='r', method='rmu', settings={}}]",
            ],
            16,
            3,
        ),
    ],
)
def test_what_needs_most_is_the_greatest_step_of_training_and_ways(
    tmp_path: Path, changes: list[str], batch: int, copies: int
) -> None:
    request = "unlearn=[{name='gone', rows='flagged'}]"
    config = simulated(tmp_path, "unlearning = { compare = [] }")
    found = training_of(read_language(config, [request, *changes]).agreement)
    assert (found.batch, found.copies) == (batch, copies)
    pieces = ["training.micro_batch=3", "training.checkpointing=true"]
    found = training_of(read_language(config, [request, *changes, *pieces]).agreement)
    assert (found.batch, found.checkpointing) == (min(3, batch) * (2 if batch > 8 else 1), True)
    found = training_of(read_language(config, changes).agreement)
    assert (found.batch, found.copies) == (8, 2), "nothing is to be unlearned"


@pytest.mark.slow
def test_merging_a_run_of_another_mode_is_refused_in_a_process_of_its_own(tmp_path: Path) -> None:
    """What other tests import would hide what a command forgets to."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes(b"x")
    digest = sha256(b"x").hexdigest()
    manifest = {"sha256": {"model.safetensors": digest}, "architecture": {"model": {}}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    call = "from parties.cli.main import main; main()"
    words = ["language", "merge", str(tmp_path), str(run), str(tmp_path / "out")]
    found = subprocess.run(
        [sys.executable, "-c", call, *words], capture_output=True, text=True, check=False
    )
    assert found.returncode == 4
    assert "holds no language model" in found.stderr


@pytest.mark.parametrize("verb", ["digest", "memory", "merge"])
def test_a_folder_without_a_model_is_named(tmp_path: Path, verb: str) -> None:
    path = simulated(tmp_path)
    words = {
        "digest": ("digest", str(tmp_path / "absent")),
        "memory": ("memory", str(path), "--base", str(tmp_path / "absent")),
        "merge": ("merge", str(tmp_path / "base"), str(tmp_path / "absent"), str(tmp_path / "o")),
    }
    result = said(*words[verb])
    assert result.exit_code not in (0, 1)
    assert "absent" in result.output


@pytest.mark.parametrize("merging", ["factors", "freeze_A"])
def test_what_is_merged_is_what_was_measured(tmp_path: Path, merging: str) -> None:
    base = write_base(tmp_path)
    write_texts(tmp_path)
    config = read_language(simulated(tmp_path, "", f'{LORA}\nmerging = "{merging}"'))
    room = furnish(config.agreement, base, "cpu")
    generator = torch.Generator().manual_seed(7)
    model = room.start + 0.3 * torch.randn(len(room.start), generator=generator)
    run = tmp_path / "run"
    run.mkdir()
    content = save(room.delivered(model))
    (run / "model.safetensors").write_bytes(content)
    manifest = {
        "architecture": config.agreement.architecture,
        "sha256": {"model.safetensors": sha256(content).hexdigest()},
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    told = said("merge", str(base), str(run), str(tmp_path / "out"))
    assert told.exit_code == 0
    assert float(told.output.split()[-1]) < 1e-4
    room.take(model)
    tokens = torch.arange(20)[None]
    merged = load_language_model(tmp_path / "out").model
    says = "generation_config.json"
    assert (tmp_path / "out" / says).read_bytes() == (base / says).read_bytes()
    assert logit_gap(room.model, merged, tokens) < 1e-4

    (run / "model.safetensors").write_bytes(content[:-1] + b"x")
    assert said("merge", str(base), str(run), str(tmp_path / "other")).exit_code == 9
