"""Three real processes with mutual TLS over loopback train and unlearn."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "configs" / "vertical" / "digits.toml"
SHORT = [
    "training.epochs=2",
    "unlearning.retrains=2",
    "unlearning.fedora.iterations=2",
    'unlearning.compare=["fine-tune", "relabel"]',
]


def simulate(out: Path, *options: str, config: Path = DIGITS) -> subprocess.CompletedProcess[str]:
    changes = [part for change in SHORT for part in ("--set", change)]
    command = [sys.executable, "-c", "from parties.cli.main import simulate_main; simulate_main()"]
    return subprocess.run(
        [*command, str(config), "--out", str(out), *changes, *options],
        capture_output=True, text=True, cwd=ROOT, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_three_processes_train_unlearn_and_equal_one_process(tmp_path: Path) -> None:
    apart = simulate(tmp_path / "apart")
    assert apart.returncode == 0, apart.stderr
    assert "FedORA" in apart.stdout
    together = simulate(tmp_path / "together", "--in-process")
    assert together.returncode == 0, together.stderr
    metrics = [
        json.loads((tmp_path / name / "digits" / "metrics.json").read_text())
        for name in ("apart", "together")
    ]
    assert metrics[0]["training"] == metrics[1]["training"]
    one, two = (each["requests"][0] for each in metrics)
    assert one["methods"][1]["steps"] == two["methods"][1]["steps"]
    for a, b in zip(one["methods"], two["methods"], strict=True):
        assert a["accuracy"] == b["accuracy"]
        assert a["divergence"] == b["divergence"]
    assert (tmp_path / "apart" / "digits" / "report.html").read_text().startswith("<!doctype html>")
    models = list((tmp_path / "apart" / "digits").glob("*/model.safetensors"))
    assert len(models) == 3


@pytest.mark.slow
def test_failed_party_ends_the_simulation_with_its_exit_code(tmp_path: Path) -> None:
    failed = simulate(tmp_path, "--set", "psi.minimum=5000")
    assert failed.returncode == 8
    assert re.search(r"fewer common\s+rows than psi.minimum = 5000", failed.stderr)
    assert "Traceback" not in failed.stderr
