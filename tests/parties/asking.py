"""Prediction inside a test: halves that a real run trained, and the trio that asks them."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from trio import PARTIES, agreement, seats
from whole_run import run

from configs.agreement import Agreement
from configs.schema import Config, validated
from parties.data.asked_ids import Asked, all_held, by_caller
from parties.data.predictions import Predictions
from parties.session.memory_port import MemoryPort
from parties.session.party import Party
from parties.session.setup import Place
from parties.vertical.prediction.answer import answer_predictions
from parties.vertical.prediction.ask import predict
from parties.vertical.prediction.trained import Trained, take_trained_seat
from parties.web.prediction_service import Service
from protocol.errors import ProtocolError

PASSIVE = ("left", "right")


def made(folder: Path) -> Path:
    """The folder with data, certificates and what a run left."""
    metrics = run(folder)
    (folder / "metrics.json").write_text(json.dumps(metrics["run"]))
    return folder


def add_giant(folder: Path) -> None:
    """A row that all hold, with features at one party that no embedding can bear."""
    for name, cells in (("hub", "0,0,0,"), ("left", "1e9,1e9,1e9"), ("right", "0,0,0")):
        with (folder / f"{name}.csv").open("a") as file:
            file.write(f"giant,{cells}\n")


def config(folder: Path, plan: Mapping[str, Any]) -> Config:
    """The trio's config."""
    agreed = validated(Agreement, dict(plan), folder, "")
    return Config(folder / "trio.toml", agreed, seats(folder))


def seat(
    folder: Path,
    name: str,
    plan: Mapping[str, Any] | None = None,
    asked: list[bytes] | None = None,
    events: list[Any] | None = None,
) -> tuple[Party, Trained]:
    """One seat with its trained half."""
    place = Place(folder / "runs", folder, folder / "certs")
    told = [] if events is None else events
    return take_trained_seat(config(folder, plan or agreement()), name, place, told.append, asked)


def ask(
    folder: Path, ids: list[str] | None = None, plan: Mapping[str, Any] | None = None
) -> Predictions:
    """What the trio predicts for some IDs, or for every row of the active party."""
    asked: Asked | None = None if ids is None else by_caller(ids, ("id",))
    taken = {
        name: seat(folder, name, plan, asked.ids if asked and name == "hub" else None)
        for name in PARTIES
    }
    port = MemoryPort()

    def answer(name: str) -> None:
        answer_predictions(*taken[name], lambda: port.connect(name))

    party, trained = taken["hub"]
    with ThreadPoolExecutor(3) as pool:
        leading = pool.submit(
            predict, party, trained, port, asked or all_held(party.holding, ("id",))
        )
        answering = [pool.submit(answer, name) for name in PASSIVE]
        try:
            return leading.result(60)
        finally:
            for each in answering:
                each.exception(30)


class Spoke:
    """A passive party in a thread, whose line can be cut as if its process were killed."""

    def __init__(
        self, folder: Path, name: str, port: MemoryPort, plan: Mapping[str, Any] | None = None
    ) -> None:
        self.lines: list[Any] = []
        self.failure: ProtocolError | None = None
        party, self.trained = seat(folder, name, plan)

        def connect() -> Any:
            self.lines.append(port.connect(name))
            return self.lines[-1]

        def work() -> None:
            try:
                answer_predictions(party, self.trained, connect)
            except ProtocolError as error:
                self.failure = error

        self.thread = Thread(target=work, daemon=True)
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
) -> Iterator[tuple[Service, MemoryPort, dict[str, Spoke]]]:
    """A service that is ready, its port and its passive parties."""
    port = MemoryPort()
    serving = Service(*seat(folder, "hub", plan), port)
    worker = Thread(target=serving.run)
    worker.start()
    spokes = {name: Spoke(folder, name, port, plan) for name in PASSIVE}
    try:
        until(lambda: serving.health()["ready"])
        yield serving, port, spokes
    finally:
        serving.stopped.set()
        worker.join(30)
        for spoke in spokes.values():
            spoke.thread.join(10)


def until(true: Any, seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    pause = Event()
    for _ in range(int(seconds / 0.02)):
        if true():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come")
