"""A server and five clients connected by memory lines, and a line that breaks."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from clients import CLIENTS
from local_cohort import LocalCohort

from configs.config_file import read_config
from configs.horizontal import HorizontalConfig
from parties.horizontal.admission import Admission
from parties.horizontal.client import run_client
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network
from parties.horizontal.party import HorizontalParty
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.errors import LineBroken, PeerSilent
from protocol.keyring import issue_certificate, make_authority
from protocol.line import Line

CONFIG = """
federation = "wards"
mode = "horizontal"
clients = 5
shape = [1, 8, 8]
labels = { classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }
parties = { server = { role = "server" } }
model = { kind = "mlp", hidden = [16] }
partition = { kind = "pathological", share = 0.4 }
training = { rounds = 3, batch = 16, learning_rate = 0.1, quorum = 0.5 }
unlearn = [{ name = "leaver", client = "client-0", trigger = { share = 0.5 } }]
limits = { join_seconds = 10.0, rejoin_seconds = 2.0, idle_seconds = 10.0 }

[settings.server]
listen = "127.0.0.1:7709"

[settings.client]
data = { kind = "sklearn", name = "digits", label = true }
"""
MASKS = '[aggregation]\nkind = "masks"\n\n[unlearning]\nmethod = "fine-tune"\n\n'
LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
MEMBERS = [Member(name) for name in CLIENTS]


def prepare(folder: Path, text: str) -> tuple[HorizontalConfig, StartOptions]:
    (folder / "wards.toml").write_text(text)
    config = read_config(folder / "wards.toml", HORIZONTAL)
    make_authority(folder / "certs", "wards")
    for name in (config.agreement.hub, *config.agreement.spokes):
        issue_certificate(folder / "certs", "wards", name)
    return config, StartOptions(folder / "runs", None, folder / "certs")


def party_of(
    ready: tuple[HorizontalConfig, StartOptions], name: str, warnings: list[str]
) -> HorizontalParty:
    def listen(event: dict[str, object]) -> None:
        if event["event"] == "warning":
            warnings.append(str(event["text"]))

    return set_up_horizontal_party(*ready[:1], name, ready[1], listen)


@contextmanager
def connected_cohort(
    ready: tuple[HorizontalConfig, StartOptions],
    warnings: list[str],
    tap: Callable[[str, Line], Line],
    min_contributors: int | None = None,
    key_holders: tuple[str, ...] | None = None,
    quorum: float = 0.5,
    rejoin_timeout: float = 10.0,
    task: LocalTask | None = None,
) -> Iterator[HubCohort]:
    """A cohort of clients in threads; with ``task``, they carry out this task alone."""
    config, port, ended = ready[0], MemoryPort(), Event()
    server = party_of(ready, config.agreement.hub, warnings)

    def connect(name: str) -> Line:
        if ended.is_set():
            raise LineBroken("the server has ended")
        return tap(name, port.connect(name))

    with ThreadPoolExecutor(5) as pool:
        for name in config.agreement.spokes:
            party = party_of(ready, name, [])
            if task is not None:
                party = replace(party, local_tasks=lambda _: [task])
            pool.submit(run_client, party, partial(connect, name))
        admission = Admission(server, port)
        settings = CohortSettings(
            quorum, 10.0, min_contributors, key_holders=key_holders, rejoin_timeout=rejoin_timeout
        )
        spokes, channels = config.agreement.spokes, admission.open()
        remote = HubCohort(spokes, channels, admission.arrivals, settings, warnings.append)
        try:
            yield remote
            remote.goodbye()
        finally:
            remote.close()
            ended.set()
            with suppress(PeerSilent):  # no client is waiting any more
                while True:
                    port.accept(0.0).cut()


def local_cohort(ready: tuple[HorizontalConfig, StartOptions]) -> LocalCohort:
    agreement = ready[0].agreement
    net = build_whole_network(agreement, "shape")
    return LocalCohort(
        {
            name: NetworkClientTask(name, net, party_of(ready, name, []).client_data, 0)
            for name in agreement.spokes
        }
    )


def unchanged_line(_name: str, line: Line) -> Line:
    return line


class BreakingLine:
    """A line that breaks once ``after`` frames were sent."""

    def __init__(self, line: Line, after: int) -> None:
        self._line, self._remaining = line, after

    @property
    def peer(self) -> str | None:
        return self._line.peer

    def send(self, frame: bytes, timeout: float) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            self._line.close()
        self._line.send(frame, timeout)

    def break_now(self) -> None:
        self._remaining = 0

    def receive(self, timeout: float) -> bytes:
        return self._line.receive(timeout)

    def close(self) -> None:
        self._line.close()

    def cut(self) -> None:
        self._line.cut()
