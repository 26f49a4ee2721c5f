"""Real processes of a horizontal run, over loopback with mutual TLS."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

from kills import ROOT, Running

from configs.config_file import read_config
from configs.horizontal import HorizontalConfig
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.session.simulation import PartyProcess, reserved_port
from protocol.keyring import issue_certificate, make_authority

CLIENTS = ("ash", "elm", "fir", "oak", "yew")
SERVER = "server"
CONFIG = """
federation = "wood"
mode = "horizontal"
shape = [1, 8, 8]
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = [64] }}
partition = {{ kind = "pathological", share = 0.4 }}
{settings}

[limits]
rejoin_seconds = 30.0
idle_seconds = 60.0
checkpoint_seconds = 0.0

[parties.server]
role = "server"

[settings.server]
listen = "127.0.0.1:7719"
"""
CLIENT = """
[parties.{name}]
role = "client"

[settings.{name}.data]
kind = "sklearn"
name = "digits"
label = true
"""


class ClientProcesses:
    """A federation of processes: its config, its keys and its port."""

    def __init__(self, folder: Path, settings: str, clients: Sequence[str] = CLIENTS) -> None:
        self.folder, self.path, self.clients = folder, folder / "wood.toml", tuple(clients)
        text = CONFIG.format(settings=settings)
        self.path.write_text(text + "".join(CLIENT.format(name=name) for name in clients))
        self.keys, self.out = folder / "certs", folder / "runs"
        make_authority(self.keys, "wood")
        for name in (SERVER, *clients):
            issue_certificate(self.keys, "wood", name)
        self._held = ExitStack()
        self.address = f"127.0.0.1:{self._held.enter_context(reserved_port())}"

    @property
    def config(self) -> HorizontalConfig:
        """The config as every process reads it."""
        return read_config(self.path, HORIZONTAL)

    def start(self, name: str) -> Running:
        """One party's process."""
        role = "server" if name == SERVER else "client"
        command = ["--role", role, "--party", name]
        command += ["--config", str(self.path), "--out", str(self.out), "--format", "json"]
        command += ["--certificates", str(self.keys), "--hub", self.address]
        running = Running(PartyProcess(command, ROOT))
        Thread(target=running.listen, daemon=True).start()
        return running

    @contextmanager
    def all(self, *names: str) -> Iterator[dict[str, Running]]:
        """Start some parties, or all; kill those that still run at the end."""
        running = {name: self.start(name) for name in names or (SERVER, *self.clients)}
        try:
            yield running
        finally:
            for each in running.values():
                each.process.kill()
                each.process.wait()
