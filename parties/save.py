"""What a party keeps of a run, in its own folder: written whole or not at all, with digests."""

import json
import math
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from parties.durable import write
from parties.errors import StorageError
from parties.features import Features
from parties.half import Half
from parties.party import Party

MODEL, ROWS, PREPROCESSING, TRAFFIC = (
    "model.safetensors",
    "rows.safetensors",
    "preprocessing.json",
    "traffic.json",
)
MANIFEST, INCARNATION = "manifest.json", "incarnation"


def canonical(content: Any) -> bytes:
    """JSON with sorted keys, no spaces and one newline at the end.

    Raises:
        ValueError: a number is not finite; it names the place.
    """
    for place, value in _numbers(content, "$"):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}; legal is a finite number, or null if not run")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Every real number of a document with the place where it stands."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _numbers(part, f"{place}[{number}]")


def next_incarnation(state: Path) -> int:
    """The number of this start of the party; it grows with every start.

    Raises:
        StorageError: the state folder cannot be used.
    """
    path = state / INCARNATION
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        last = int(path.read_text()) if path.exists() else 0
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot use {state}", "choose another --out folder") from error
    write(path, f"{last + 1}\n".encode())
    return last + 1


def save_half(party: Party, half: Half, features: Features) -> None:
    """Write our half of the model, row map, preprocessing and traffic, and their digests."""
    parts = {
        name: tensor.detach().contiguous()
        for name, tensor in half.model.network.state_dict().items()
    }
    files = {
        ROWS: save({"rows": torch.from_numpy(features.rows)}),
        TRAFFIC: canonical({"phases": party.ledger.by_phase(), "peers": party.ledger.by_peer()}),
    }
    if parts:
        files[MODEL] = save(parts)
    if half.model.inputs is not None:
        files[PREPROCESSING] = canonical(half.model.inputs.fitted.statistics())
    for name, content in files.items():
        write(party.state / name, content)
    manifest = {
        "party": party.name,
        "agreement": party.digest.hex(),
        "threads": party.seat.threads,
        "torch": torch.__version__,
        "sha256": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    write(party.state / MANIFEST, canonical(manifest))
