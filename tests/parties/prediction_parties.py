"""Prediction inside a test: trained models of a real run, and three parties."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from three_parties import PARTIES, agreement, party_settings
from whole_run import run

from configs.config_file import ConfigFile, validate_table
from parties.data.party_settings import VerticalConfig
from parties.data.predictions import Predictions
from parties.data.requested_ids import RequestedIds, all_ids, parse_ids
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from parties.vertical.engine.party import VerticalParty
from parties.vertical.methods.registry import AGREEMENT, SCHEMA
from parties.vertical.prediction.active import predict_vertical_rows
from parties.vertical.prediction.passive import serve_predictions
from parties.vertical.prediction.setup import TrainedNetwork, set_up_trained_party
from parties.web.prediction_service import PredictionService
from protocol.errors import ProtocolError

PASSIVE = ("left", "right")


def trained_parties(folder: Path, **changes: Any) -> Path:
    """A folder with data, certificates and the files of a run; ``changes`` as for ``run``."""
    metrics = run(folder, **changes)
    (folder / "metrics.json").write_text(json.dumps(metrics["run"]))
    return folder


def add_row_with_large_embedding(folder: Path) -> None:
    """Add a common row whose embedding at one party exceeds ``limits.magnitude``."""
    for name, cells in (("hub", "0,0,0,"), ("left", "1e9,1e9,1e9"), ("right", "0,0,0")):
        with (folder / f"{name}.csv").open("a") as file:
            file.write(f"giant,{cells}\n")


def config(folder: Path, plan: Mapping[str, Any]) -> VerticalConfig:
    """The config of the three parties."""
    agreed = validate_table(AGREEMENT, dict(plan), folder, "")
    return ConfigFile(folder / "trio.toml", SCHEMA, agreed, party_settings(folder))


def party_of(
    folder: Path,
    name: str,
    plan: Mapping[str, Any] | None = None,
    requested_ids: list[bytes] | None = None,
    events: list[Any] | None = None,
) -> tuple[VerticalParty, TrainedNetwork]:
    """One party with its trained network."""
    place = StartOptions(folder / "runs", folder, folder / "certs")
    received_events = [] if events is None else events
    return set_up_trained_party(
        config(folder, plan or agreement()), name, place, received_events.append, requested_ids
    )


def predict_rows(
    folder: Path, ids: list[str] | None = None, plan: Mapping[str, Any] | None = None
) -> Predictions:
    """The predictions for some IDs, or for each row of the active party."""
    requested: RequestedIds | None = None if ids is None else parse_ids(ids, ("id",))
    parties = {
        name: party_of(folder, name, plan, requested.ids if requested and name == "hub" else None)
        for name in PARTIES
    }
    port = MemoryPort()

    def serve(name: str) -> None:
        serve_predictions(*parties[name], lambda: port.connect(name))

    party, trained = parties["hub"]
    with ThreadPoolExecutor(3) as pool:
        active = pool.submit(
            predict_vertical_rows,
            party,
            trained,
            port,
            requested or all_ids(party.holding, ("id",)),
        )
        passive = [pool.submit(serve, name) for name in PASSIVE]
        try:
            return active.result(60)
        finally:
            for each in passive:
                each.exception(30)


class Spoke:
    """A passive party in a thread, whose line can be cut as if its process were killed."""

    def __init__(
        self, folder: Path, name: str, port: MemoryPort, plan: Mapping[str, Any] | None = None
    ) -> None:
        self.lines: list[Any] = []
        self.failure: ProtocolError | None = None
        party, self.trained = party_of(folder, name, plan)

        def connect() -> Any:
            self.lines.append(port.connect(name))
            return self.lines[-1]

        def serve_until_end() -> None:
            try:
                serve_predictions(party, self.trained, connect)
            except ProtocolError as error:
                self.failure = error

        self.thread = Thread(target=serve_until_end, daemon=True)
        self.thread.start()

    def kill(self) -> None:
        """End both directions at once."""
        line = self.lines[-1]
        line._outbox.end()
        line._inbox.end()
        self.thread.join(10)


@contextmanager
def service(
    folder: Path, plan: Mapping[str, Any] | None = None
) -> Iterator[tuple[PredictionService, MemoryPort, dict[str, Spoke]]]:
    """A prediction service that is ready, its port and its passive parties."""
    port = MemoryPort()
    serving = PredictionService(*party_of(folder, "hub", plan), port)
    worker = Thread(target=serving.run)
    worker.start()
    spokes = {name: Spoke(folder, name, port, plan) for name in PASSIVE}
    try:
        wait_until(lambda: serving.health()["ready"])
        yield serving, port, spokes
    finally:
        serving.stopped.set()
        worker.join(30)
        for spoke in spokes.values():
            spoke.thread.join(10)


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    """Wait until a condition is true."""
    pause = Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come")
