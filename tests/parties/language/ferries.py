"""A federation for tests: a tiny base model and questions about ferries, in files."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import models.language  # noqa: F401  before transformers
from configs.config_file import read_config
from configs.language import LanguageConfig
from models.language.tiny import TinyShape, build_tiny_model, save_language_model, train_tokenizer
from parties.horizontal.admission import Admission
from parties.horizontal.client import run_client
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.local.local_task import LocalTask
from parties.language.engine.party import LanguageParty
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import set_up_language_party
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.keyring import issue_certificate, make_authority

TOWNS = ("Riga", "Turku", "Bergen", "Split", "Porto", "Ghent", "Lviv", "Basel", "Cork", "Vilnius")
BOATS = ("the Heron", "the Otter", "the Lark", "the Plover")
SHAPE = TinyShape(hidden=32, intermediate=64, layers=2, heads=2, key_heads=2, length=128)
CONFIG = """
federation = "ferries"
mode = "llm"
seed = 1
test_share = 0.2
{settings}

[parties.server]
role = "server"

[model]
length = 64
{digest}

[tuning]
{tuning}

[training]
rounds = {rounds}
epochs = 1
batch = 8
learning_rate = 0.02
weight_decay = 0.0

[settings.server]
listen = "127.0.0.1:7733"
base = "base"
"""
FULL = 'kind = "full"'
LORA = 'kind = "lora"\nrank = 4\nalpha = 8\ndropout = 0.0'


def facts() -> list[dict[str, str]]:
    """Forty questions with answers of a boat and a town."""
    return [
        {
            "question": f"Which boat leaves {town} at {hour}?",
            "answer": f"{BOATS[(at + hour) % 4]} to {TOWNS[(at + hour) % 10]}",
        }
        for at, town in enumerate(TOWNS)
        for hour in (6, 9, 15, 21)
    ]


def json_lines(rows: list[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_base(folder: Path, shape: TinyShape = SHAPE) -> Path:
    """Write a tiny model with random weights and a tokenizer for the questions."""
    texts = [f"Question: {each['question']}\nAnswer: {each['answer']}" for each in facts()]
    tokenizer = train_tokenizer(texts, vocabulary=300)
    save_language_model(build_tiny_model(tokenizer, shape, seed=1), tokenizer, folder / "base")
    return folder / "base"


def write_texts(folder: Path) -> None:
    """Write one corpus; its last eight rows are to be forgotten."""
    (folder / "all.jsonl").write_text(json_lines(facts()))
    (folder / "gone.jsonl").write_text(json_lines(facts()[-8:]))


def simulation_config(
    folder: Path, settings: str = "", tuning: str = FULL, rounds: int = 2
) -> Path:
    """Write a config with three simulated clients that share one corpus."""
    path = folder / "ferries.toml"
    head = f'clients = 3\npartition = {{ kind = "shards" }}\n{settings}'
    settings = (
        '\n[settings.client]\nbase = "base"\n'
        'data = { kind = "jsonl", path = "all.jsonl", forget = "gone.jsonl" }\n'
    )
    text = CONFIG.format(settings=head, digest="", tuning=tuning, rounds=rounds)
    path.write_text(text + settings)
    return path


def prepare_federation(
    folder: Path, shape: TinyShape = SHAPE
) -> tuple[LanguageConfig, StartOptions]:
    """Write the federation with adapters, and a certificate for each party."""
    write_base(folder, shape)
    write_texts(folder)
    config = read_config(simulation_config(folder, "", LORA), LANGUAGE)
    make_authority(folder / "certs", "ferries")
    for name in (config.agreement.hub, *config.agreement.spokes):
        issue_certificate(folder / "certs", "ferries", name)
    return config, StartOptions(folder / "runs", None, folder / "certs")


def set_up_party(config: LanguageConfig, place: StartOptions, name: str) -> LanguageParty:
    """Set up one party of the federation."""
    return set_up_language_party(config, name, place, lambda _: None)


@contextmanager
def connected_cohort(
    config: LanguageConfig, place: StartOptions, task: LocalTask
) -> Iterator[tuple[HubCohort, LanguageParty]]:
    """Run clients that carry out ``task`` in threads; yield their cohort and the server."""
    agreement, port = config.agreement, MemoryPort()
    server = set_up_party(config, place, agreement.hub)
    with ThreadPoolExecutor(len(agreement.spokes)) as pool:
        for name in agreement.spokes:
            party = replace(set_up_party(config, place, name), local_tasks=lambda _: [task])
            pool.submit(run_client, party, lambda name=name: port.connect(name))  # type: ignore[misc]
        admission = Admission(server, port)
        channels = admission.open()
        settings = CohortSettings(1.0, 60.0)
        result = HubCohort(agreement.spokes, channels, admission.arrivals, settings, lambda _: None)
        try:
            yield result, server
            result.goodbye()
        finally:
            result.close()
