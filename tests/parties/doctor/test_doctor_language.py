"""``vfl doctor`` for a server and for a client of a language model."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from models.language.folder import base_model_digest
from parties.cli.main import app
from protocol.keyring import issue_certificate, make_authority
from tests.parties.language.ferries import CONFIG, LORA, facts, json_lines, write_base

NAMES = ("server", "ash", "elm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepared = tmp_path_factory.mktemp("ferries")
    base = write_base(prepared)
    (prepared / "ash.jsonl").write_text(json_lines(facts()[:20]))
    (prepared / "gone.jsonl").write_text(json_lines(facts()[:5]))
    digest = f'digest = "{base_model_digest(base)}"'
    text = CONFIG.format(settings="", digest=digest, tuning=LORA, rounds=2)
    for name in ("ash", "elm"):
        text += f'\n[parties.{name}]\nrole = "client"\n[settings.{name}]\nbase = "base"\n'
        forget = ', forget = "gone.jsonl"' if name == "ash" else ""
        text += f'data = {{ kind = "jsonl", path = "{name}.jsonl"{forget} }}\n'
    (prepared / "ferries.toml").write_text(text)
    make_authority(prepared / "certs", "ferries")
    for name in NAMES:
        issue_certificate(prepared / "certs", "ferries", name)
    return prepared


def run_doctor(
    folder: Path, name: str, *options: str
) -> tuple[Result, dict[str, list[dict[str, Any]]]]:
    command = ["doctor", str(folder / "ferries.toml"), "--party", name, "--format", "json"]
    command += ["--certificates", str(folder / "certs"), "--out", str(folder / "runs"), *options]
    result = CliRunner().invoke(app, command, env={"VFL_DATA": None})
    findings: dict[str, list[dict[str, Any]]] = {}
    for line in result.output.splitlines():
        event = json.loads(line)
        if event["event"] == "finding":
            findings.setdefault(event["check"], []).append(event)
    return result, findings


def test_base_model_port_and_memory_of_a_server_are_checked(folder: Path) -> None:
    result, findings = run_doctor(folder, "server", "--hub", "127.0.0.1:0", "--data-full")
    assert result.exit_code == 0, result.output
    assert findings["config"][0]["message"] == "ferries: server is server, of 2 clients"
    assert findings["base model"][0]["message"].endswith(": llama, the digest is right")
    assert findings["memory"][0]["message"].startswith("evaluation at the server needs about 0.")
    assert findings["texts"][0]["message"] == "the server needs no texts"
    assert {"certificate", "port", "out folder", "clock"} <= set(findings)


def test_missing_benchmark_setting_is_reported_before_the_run(folder: Path) -> None:
    result, findings = run_doctor(folder, "server", "--set", 'evaluation.benchmark="tofu"')
    assert result.exit_code == 3
    message = (
        "evaluation.benchmark is 'tofu', but the settings of server do not name the files of "
        "this benchmark"
    )
    assert [(each["message"], each["exit"]) for each in findings["benchmark"]] == [(message, 3)]


def test_texts_of_a_client_are_read_as_in_a_run(folder: Path) -> None:
    _, findings = run_doctor(folder, "ash", "--data-full", "--hub", "127.0.0.1:1")
    assert findings["memory"][0]["message"].startswith("training at a client needs about 0.")
    message = findings["all texts"][0]["message"]
    assert message == "20 texts of ash, 5 of them flagged for unlearning; 0 public texts"
    assert findings["connection to the hub"][0]["state"] == "fail", "no process listens"


def test_setting_unsupported_by_the_base_model_is_reported(folder: Path) -> None:
    changes = ("unlearn=[{name='gone', rows='flagged'}]", "unlearning.method='rmu'")
    words = [each.replace("'", '"') for each in (*changes, "unlearning.rmu.layer=99")]
    _, findings = run_doctor(folder, "ash", *(part for each in words for part in ("--set", each)))
    assert findings["settings"][0]["message"].startswith("unlearning.rmu.layer is 99, but the base")


def test_length_beyond_the_base_model_is_refused_before_reading_texts(folder: Path) -> None:
    _, findings = run_doctor(folder, "ash", "--set", "model.length=100000")
    assert "the base model in" in findings["settings"][0]["message"]
    assert findings["settings"][0]["message"].startswith("model.length is 100000, but")


def test_other_base_model_and_missing_texts_are_reported(folder: Path) -> None:
    result, findings = run_doctor(
        folder, "elm", "--data-full", "--set", f'model.digest="{"0" * 64}"'
    )
    assert result.exit_code == 3
    assert "the agreement has 000000000000" in findings["base model"][0]["message"]
    assert findings["texts"][0]["exit"] == 4
    assert findings["texts"][0]["message"].endswith("elm.jsonl does not exist")
    assert "all texts" not in findings
