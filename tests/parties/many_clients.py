"""ManyClients clients of one data set in this process, real but for the network between them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from configs.config_file import read_config
from configs.horizontal import HorizontalConfig
from parties.horizontal.admission import Admission
from parties.horizontal.client import run_client
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.local.client_data import client_data_of, read_partitioned_data
from parties.horizontal.party import HorizontalParty
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.identity import load_identity
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.keyring import issue_certificate, make_authority


@dataclass(frozen=True)
class ManyClients:
    """A config, its keys, and every client's party; the data set is read once."""

    config: HorizontalConfig
    server: HorizontalParty
    clients: dict[str, HorizontalParty]

    @classmethod
    def read(cls, path: Path, folder: Path, data: Path | None) -> "ManyClients":
        """Set up all parties; keys and states lie in ``folder``."""
        config = read_config(path, HORIZONTAL)
        agreement, keys = config.agreement, folder / "certs"
        make_authority(keys, agreement.federation)
        for name in (agreement.hub, *agreement.spokes):
            issue_certificate(keys, agreement.federation, name)
        options = StartOptions(folder / "runs", data, keys)
        server = set_up_horizontal_party(config, agreement.hub, options, lambda _: None)
        first = set_up_horizontal_party(config, agreement.spokes[0], options, lambda _: None)
        whole = read_partitioned_data(
            agreement, first.name, first.settings.data, data or path.parent, lambda _: None
        )  # type: ignore[attr-defined]
        clients = {}
        for name in agreement.spokes:
            known = load_identity(config, name, keys, datetime.now(UTC))
            clients[name] = replace(
                first, name=name, keyring=known.keyring, trust=known.trust,
                client_data=client_data_of(agreement, name, whole), state=options.out / name,
            )  # fmt: skip
        return cls(config, server, clients)

    @contextmanager
    def cohort(self) -> Iterator[HubCohort]:
        """Connect all clients over lines in memory, with one thread for each client."""
        agreement, port = self.config.agreement, MemoryPort()
        names, limits = agreement.spokes, agreement.limits
        with ThreadPoolExecutor(len(names)) as pool:
            for name, party in self.clients.items():
                pool.submit(run_client, party, lambda name=name: port.connect(name))  # type: ignore[misc]
            admission = Admission(self.server, port)
            settings = CohortSettings(agreement.training.quorum, limits.idle_seconds)
            warn = self.server.progress.warn
            cohort = HubCohort(names, admission.open(), admission.arrivals, settings, warn)
            try:
                yield cohort
                cohort.goodbye()
            finally:
                cohort.close()
