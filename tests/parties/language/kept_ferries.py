"""Clients of a language model that keep their adapter, and a request to forget texts."""

from collections.abc import Sequence
from pathlib import Path

from models.language.folder import base_model_digest
from tests.parties.client_federation import ClientFederation, ClientKills
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
rejoin_seconds = 60.0
checkpoint_seconds = 0.0
"""


def write_kept_ferries(folder: Path, changes: Sequence[str] = ()) -> ClientFederation:
    """Write the config, the base model and the texts, and open the federation with ``changes``."""
    digest = f'digest = "{base_model_digest(write_base(folder))}"'
    rows, data = facts(), ""
    for at, name in enumerate(CLIENTS):
        (folder / f"{name}.jsonl").write_text(json_lines(rows[at::2]))
        data += f'\n[settings.{name}]\nbase = "base"\n'
        data += f'data = {{ kind = "jsonl", path = "{name}.jsonl" }}\n'
    text = CONFIG.format(settings=KEPT, digest=digest, tuning=LORA, rounds=1)
    config = folder / "ferries.toml"
    config.write_text(text + data)
    return ClientFederation(folder, changes, config)


class TextKills(ClientKills):
    """The lives of a request to forget half of a client's texts."""

    client = CLIENTS[0]
    fraction = "0.5"
    changes: Sequence[str] = ()  # of the agreement

    def _open(self, folder: Path) -> ClientFederation:
        config = folder / "ferries.toml"
        if not config.exists():
            folder.mkdir(parents=True, exist_ok=True)
            return write_kept_ferries(folder, self.changes)
        return ClientFederation(folder, self.changes, config)
