"""Many clients of one data set in this process, real but for the network between them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from configs.federated_file import HorizontalConfig, read_horizontal
from parties.horizontal.admission import Door
from parties.horizontal.client import run_client
from parties.horizontal.engine.hub_cohort import HubCohort, Manner
from parties.horizontal.local.client_data import read_whole, shelf_of
from parties.horizontal.party import HorizontalParty
from parties.horizontal.setup import take_horizontal_seat
from parties.session.identity import identify
from parties.session.memory_port import MemoryPort
from parties.session.setup import Place
from protocol.keyring import issue, make_authority


@dataclass(frozen=True)
class Many:
    """A config, its keys, and every client's seat; the data set is read once."""

    config: HorizontalConfig
    server: HorizontalParty
    clients: dict[str, HorizontalParty]

    @classmethod
    def read(cls, path: Path, folder: Path, data: Path | None) -> "Many":
        """Take all seats; keys and states lie in ``folder``."""
        config = read_horizontal(path)
        agreement, keys = config.agreement, folder / "certs"
        make_authority(keys, agreement.federation)
        for name in (agreement.hub, *agreement.spokes):
            issue(keys, agreement.federation, name)
        place = Place(folder / "runs", data, keys)
        server = take_horizontal_seat(config, agreement.hub, place, lambda _: None)
        first = take_horizontal_seat(config, agreement.spokes[0], place, lambda _: None)
        whole = read_whole(agreement, first.seat.data, data or path.parent, lambda _: None)  # type: ignore[attr-defined]
        clients = {}
        for name in agreement.spokes:
            known = identify(config, name, keys, datetime.now(UTC))
            clients[name] = replace(
                first, name=name, keyring=known.keyring, trust=known.trust,
                shelf=shelf_of(agreement, name, whole), state=place.out / name,
            )  # fmt: skip
        return cls(config, server, clients)

    @contextmanager
    def cohort(self) -> Iterator[HubCohort]:
        """All of them at the ends of lines in memory, each with a thread."""
        agreement, port = self.config.agreement, MemoryPort()
        names, limits = agreement.spokes, agreement.limits
        with ThreadPoolExecutor(len(names)) as pool:
            for name, party in self.clients.items():
                pool.submit(run_client, party, lambda name=name: port.connect(name))  # type: ignore[misc]
            door = Door(self.server, port)
            manner = Manner(agreement.training.quorum, limits.idle_seconds)
            warn = self.server.watch.warn
            found = HubCohort(names, door.open(), door.arrivals, manner, warn)
            try:
                yield found
                found.goodbye()
            finally:
                found.close()
