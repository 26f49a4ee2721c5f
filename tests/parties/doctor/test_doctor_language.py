"""``vfl doctor`` for a server and for a client of a language model."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from models.language.folder import base_model_digest
from parties.cli.main import app
from protocol.keyring import issue_certificate, make_authority
from tests.parties.horizontal.language.ferries import CONFIG, LORA, facts, json_lines, write_base

NAMES = ("server", "ash", "elm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ferries")
    base = write_base(made)
    (made / "ash.jsonl").write_text(json_lines(facts()[:20]))
    (made / "gone.jsonl").write_text(json_lines(facts()[:5]))
    digest = f'digest = "{base_model_digest(base)}"'
    text = CONFIG.format(settings="", digest=digest, tuning=LORA, rounds=2)
    for name in ("ash", "elm"):
        text += f'\n[parties.{name}]\nrole = "client"\n[settings.{name}]\nbase = "base"\n'
        forget = ', forget = "gone.jsonl"' if name == "ash" else ""
        text += f'data = {{ kind = "jsonl", path = "{name}.jsonl"{forget} }}\n'
    (made / "ferries.toml").write_text(text)
    make_authority(made / "certs", "ferries")
    for name in NAMES:
        issue_certificate(made / "certs", "ferries", name)
    return made


def visit(folder: Path, name: str, *options: str) -> tuple[Result, dict[str, list[dict[str, Any]]]]:
    command = ["doctor", str(folder / "ferries.toml"), "--party", name, "--format", "json"]
    command += ["--certificates", str(folder / "certs"), "--out", str(folder / "runs"), *options]
    result = CliRunner().invoke(app, command, env={"VFL_DATA": None})
    found: dict[str, list[dict[str, Any]]] = {}
    for line in result.output.splitlines():
        event = json.loads(line)
        if event["event"] == "finding":
            found.setdefault(event["check"], []).append(event)
    return result, found


def test_a_server_s_base_model_port_and_memory_are_looked_at(folder: Path) -> None:
    result, found = visit(folder, "server", "--hub", "127.0.0.1:0", "--data-full")
    assert result.exit_code == 0, result.output
    assert found["config"][0]["message"] == "ferries: server is server, of 2 clients"
    assert found["base model"][0]["message"].endswith(": llama, the digest is right")
    assert found["memory"][0]["message"].startswith("evaluation at the server needs about 0.")
    assert found["texts"][0]["message"] == "the server needs no texts"
    assert {"certificate", "port", "out folder", "clock"} <= set(found)


def test_a_benchmark_that_the_settings_do_not_name_is_told_before_the_run(folder: Path) -> None:
    result, found = visit(folder, "server", "--set", 'evaluation.benchmark="tofu"')
    assert result.exit_code == 3
    message = "evaluation.benchmark is 'tofu', and the settings of server do not name its files"
    assert [(each["message"], each["exit"]) for each in found["benchmark"]] == [(message, 3)]


def test_a_client_s_texts_are_read_as_a_run_reads_them(folder: Path) -> None:
    _, found = visit(folder, "ash", "--data-full", "--hub", "127.0.0.1:1")
    assert found["memory"][0]["message"].startswith("training at a client needs about 0.")
    message = found["all texts"][0]["message"]
    assert message == "20 texts of ash, 5 of them flagged for unlearning; 0 public texts"
    assert found["connection to the hub"][0]["state"] == "fail", "no process listens"


def test_a_setting_that_the_base_does_not_bear_is_told(folder: Path) -> None:
    changes = ("unlearn=[{name='gone', rows='flagged'}]", "unlearning.method='rmu'")
    words = [each.replace("'", '"') for each in (*changes, "unlearning.rmu.layer=99")]
    _, found = visit(folder, "ash", *(part for each in words for part in ("--set", each)))
    assert found["settings"][0]["message"].startswith("unlearning.rmu.layer is 99, and the base")


def test_texts_longer_than_the_base_takes_are_refused_before_one_is_read(folder: Path) -> None:
    _, found = visit(folder, "ash", "--set", "model.length=100000")
    assert "the base model in" in found["settings"][0]["message"]
    assert found["settings"][0]["message"].startswith("model.length is 100000, and")


def test_another_base_model_and_absent_texts_are_told(folder: Path) -> None:
    result, found = visit(folder, "elm", "--data-full", "--set", f'model.digest="{"0" * 64}"')
    assert result.exit_code == 3
    assert "the agreement has 000000000000" in found["base model"][0]["message"]
    assert found["texts"][0]["exit"] == 4
    assert found["texts"][0]["message"].endswith("elm.jsonl does not exist")
    assert "all texts" not in found
