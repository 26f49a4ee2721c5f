"""A federation of ferrymen: a tiny base model and each one's questions, in files of their own."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import models.language  # noqa: F401  before transformers
from configs.federated_file import LanguageConfig, read_language
from models.language.tiny import TinyShape, build_tiny, save_model, train_tokenizer
from parties.horizontal.admission import Door
from parties.horizontal.client import run_client
from parties.horizontal.engine.hub_cohort import HubCohort, Manner
from parties.language.party import LanguageParty
from parties.language.setup import take_language_seat
from parties.session.memory_port import MemoryPort
from parties.session.setup import Place
from protocol.keyring import issue, make_authority

TOWNS = ("Riga", "Turku", "Bergen", "Split", "Porto", "Ghent", "Lviv", "Basel", "Cork", "Vilnius")
BOATS = ("the Heron", "the Otter", "the Lark", "the Plover")
SHAPE = TinyShape(hidden=32, intermediate=64, layers=2, heads=2, key_heads=2, length=128)
CONFIG = """
federation = "ferries"
mode = "llm"
seed = 1
held = 0.2
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

[seats.server]
listen = "127.0.0.1:7733"
base = "base"
"""
FULL = 'kind = "full"'
LORA = 'kind = "lora"\nrank = 4\nalpha = 8\ndropout = 0.0'


def facts() -> list[dict[str, str]]:
    """Forty questions; each answer is another town's and boat's."""
    return [
        {
            "question": f"Which boat leaves {town} at {hour}?",
            "answer": f"{BOATS[(at + hour) % 4]} to {TOWNS[(at + hour) % 10]}",
        }
        for at, town in enumerate(TOWNS)
        for hour in (6, 9, 15, 21)
    ]


def lines(rows: list[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_base(folder: Path, shape: TinyShape = SHAPE) -> Path:
    """A random tiny model that knows the words."""
    texts = [f"Question: {each['question']}\nAnswer: {each['answer']}" for each in facts()]
    tokenizer = train_tokenizer(texts, vocabulary=300)
    save_model(build_tiny(tokenizer, shape, seed=1), tokenizer, folder / "base")
    return folder / "base"


def write_texts(folder: Path) -> None:
    """One corpus of all, of which the last eight are to be forgotten."""
    (folder / "all.jsonl").write_text(lines(facts()))
    (folder / "gone.jsonl").write_text(lines(facts()[-8:]))


def simulated(folder: Path, settings: str = "", tuning: str = FULL, rounds: int = 2) -> Path:
    """A config with three simulated clients of one corpus."""
    path = folder / "ferries.toml"
    head = f'clients = 3\npartition = {{ kind = "shards" }}\n{settings}'
    seat = (
        '\n[seats.client]\nbase = "base"\n'
        'data = { kind = "jsonl", path = "all.jsonl", forget = "gone.jsonl" }\n'
    )
    text = CONFIG.format(settings=head, digest="", tuning=tuning, rounds=rounds)
    path.write_text(text + seat)
    return path


def with_keys(folder: Path, shape: TinyShape = SHAPE) -> tuple[LanguageConfig, Place]:
    """That federation with adapters, and a key for everybody."""
    write_base(folder, shape)
    write_texts(folder)
    config = read_language(simulated(folder, "", LORA))
    make_authority(folder / "certs", "ferries")
    for name in (config.agreement.hub, *config.agreement.spokes):
        issue(folder / "certs", "ferries", name)
    return config, Place(folder / "runs", None, folder / "certs")


def seat(config: LanguageConfig, place: Place, name: str) -> LanguageParty:
    """One of its parties."""
    return take_language_seat(config, name, place, lambda _: None)


@contextmanager
def at_lines(config: LanguageConfig, place: Place) -> Iterator[tuple[HubCohort, LanguageParty]]:
    """Its clients, each at a line in memory, and the server."""
    agreement, port = config.agreement, MemoryPort()
    server = seat(config, place, agreement.hub)
    with ThreadPoolExecutor(len(agreement.spokes)) as pool:
        for name in agreement.spokes:
            party = seat(config, place, name)
            pool.submit(run_client, party, lambda name=name: port.connect(name))  # type: ignore[misc]
        door = Door(server, port)
        channels = door.open()
        manner = Manner(1.0, 60.0)
        found = HubCohort(agreement.spokes, channels, door.arrivals, manner, lambda _: None)
        try:
            yield found, server
            found.goodbye()
        finally:
            found.close()
