"""Prediction service: a worker thread that predicts for callers, and waits for absent parties."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Lock
from typing import Any

import numpy as np

from configs.targets import Task
from parties.common.errors import PartyError
from parties.data.predictions import Probabilities
from parties.data.sources.source import DataSettings
from parties.session import handshake
from parties.vertical.engine.party import VerticalParty
from parties.vertical.prediction.active import Predictor
from parties.vertical.prediction.setup import TrainedNetwork
from protocol.errors import PeerSilent, ProtocolError
from protocol.hub import Hub
from protocol.line import Line

TICK = 0.25  # seconds between two checks for a stop and for lost parties
MAX_WAITING = 64  # requests in the queue
MAX_LATENCIES = 10_000  # latest requests whose latencies are stored


class ServiceStopped(ProtocolError):
    """The operator stopped the service while the service waited for parties."""


class Unavailable(Exception):
    """The service cannot predict now.

    Attributes:
        absent: parties that are not connected.
        hint: what the caller can do.
    """

    def __init__(self, message: str, hint: str, absent: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.hint, self.absent = hint, list(absent)


class Latencies:
    """Response times of the latest requests, and the total numbers of requests and rows."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MAX_LATENCIES)
        self._lock = Lock()
        self.requests = self.rows = 0

    def add(self, seconds: float, rows: int) -> None:
        """Record that a request for ``rows`` rows was answered after ``seconds`` seconds."""
        with self._lock:
            self._seconds.append(seconds)
            self.requests, self.rows = self.requests + 1, self.rows + rows

    def summary(self) -> dict[str, Any]:
        """Return the numbers of requests and rows, and the median and p99 of times in ms."""
        with self._lock:
            seconds, counts = list(self._seconds), (self.requests, self.rows)
        p50, p99 = np.percentile(seconds, [50, 99]) * 1e3 if seconds else (None, None)
        times = {
            name: None if value is None else round(float(value), 3)
            for name, value in (("p50_ms", p50), ("p99_ms", p99))
        }
        return {"requests": counts[0], "rows": counts[1], **times}


@dataclass(frozen=True, slots=True)
class _Job:
    ids: Sequence[bytes]
    result: "Future[Probabilities]"


class _WaitingPort:
    """A port that waits for spokes until the service stops, and lists the connected spokes."""

    def __init__(self, port: handshake.SpokePort, stopped: Event) -> None:
        self._port, self._stopped = port, stopped
        self._lines: list[Line] = []

    @property
    def connected(self) -> set[str]:
        """Return the spokes that have connected since the last ``close_lines``."""
        return {str(line.peer) for line in self._lines}

    def accept(self, timeout: float) -> Line:  # noqa: ARG002  a service waits without a limit
        """Return the line of the next spoke that connects.

        Raises:
            ServiceStopped: the service stopped before a spoke connected.
        """
        while not self._stopped.is_set():
            try:
                line = self._port.accept(TICK)
            except PeerSilent:
                continue
            self._lines.append(line)
            return line
        raise ServiceStopped("the prediction service was stopped")

    def close_lines(self) -> None:
        """Close all lines, so that their parties can connect again."""
        lines, self._lines = self._lines, []
        for line in lines:
            line.close()


class PredictionService:
    """Predicts the classes of rows for callers in other threads, one request after another.

    Attributes:
        stopped: event that stops the service when it is set.
        latencies: durations of the answered requests; the HTTP server adds each duration.
        failure: the error that stopped the worker thread, if any.
    """

    def __init__(
        self, party: VerticalParty, trained: TrainedNetwork, port: handshake.SpokePort
    ) -> None:
        self.stopped, self.latencies = Event(), Latencies()
        self.failure: Exception | None = None
        self._party, self._trained = party, trained
        self._port = _WaitingPort(port, self.stopped)
        self._jobs: Queue[_Job] = Queue(MAX_WAITING)
        self._queueing = Lock()  # guards _common: no job may be queued once the queue was emptied
        self._common: int | None = None  # number of common rows while all parties are connected
        self._left: set[str] = set()  # parties because of which the last session ended

    # --- for callers ------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """What the model predicts."""
        return self._party.agreement.labels.task

    @property
    def classes(self) -> Sequence[str]:
        """Return the names of the classes."""
        return self._party.agreement.labels.classes

    @property
    def data(self) -> DataSettings:
        """Return the party's data settings, which name the ID columns."""
        return self._party.settings.data

    def answer(self, ids: Sequence[bytes]) -> tuple[Probabilities, bool]:
        """Return class probabilities, [ids, classes], and False: there is no fallback model.

        Raises:
            Unavailable: as for ``probabilities``.
        """
        return self.probabilities(ids), False

    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """Return class probabilities, ``[ids, classes]``; NaN for rows that a party lacks.

        Raises:
            Unavailable: a party is absent, or the prediction takes too long.
            PartyError: these rows cannot be predicted.
        """
        job, patience = _Job(ids, Future()), 2 * self._party.limits.step_seconds
        self._queue(job)
        try:
            return job.result.result(patience)
        except TimeoutError:
            job.result.cancel()
            raise Unavailable(
                f"the prediction took longer than {patience:g} s", "try again"
            ) from None

    def health(self) -> dict[str, Any]:
        """Return whether each party is connected, the number of common rows, and statistics."""
        absent = self._absent()
        return {
            "ready": self._common is not None,
            "parties": {
                name: "absent" if name in absent else "here"
                for name in self._party.agreement.parties
            },
            "common_rows": self._common,
            **self.latencies.summary(),
        }

    def _queue(self, job: _Job) -> None:
        with self._queueing:
            if self._common is None:
                raise self._unavailable()
            try:
                self._jobs.put_nowait(job)
            except Full:
                raise Unavailable(
                    f"the queue is full: {MAX_WAITING} prediction requests are waiting",
                    "send more IDs in one request",
                ) from None

    def _absent(self) -> list[str]:
        if self._common is not None:
            return []
        absent = set(self._party.agreement.passive) - self._port.connected
        return sorted(absent & self._left or absent)

    def _unavailable(self) -> Unavailable:
        if self.stopped.is_set():
            return Unavailable("the service is ending", "start it again")
        absent = self._absent()
        if not absent:
            return Unavailable("the parties compute their common rows", "try again in a moment")
        names = " and ".join(absent)
        return Unavailable(
            f"{names} {'is' if len(absent) == 1 else 'are'} absent",
            f"run `vfl predict` at {names} again; this service then continues by itself",
            absent,
        )

    # --- the worker -------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until ``stopped`` is set; if a party is lost, wait for it and align rows again."""
        while not self.stopped.is_set():
            try:
                self._run_session()
            except ServiceStopped:
                return
            except ProtocolError as error:
                self._left = {error.peer} - {""}
                self._party.progress.warn(str(error))
            except Exception as error:  # noqa: BLE001  the main thread raises it
                self.failure = error
                self.stopped.set()
            finally:
                self._close()

    def _run_session(self) -> None:
        """Connect all parties and answer requests until the service stops or a party is lost."""
        hub, _ = handshake.accept_spokes(self._party, self._port)
        try:
            predictor = self._aligned(hub)
            self._party.progress.phase("serving")
            self._common, self._left = len(predictor), set()
            while not self.stopped.is_set():
                self._answer_next(predictor)
            predictor.goodbye()
        except Exception as error:
            handshake.abort_channels(hub, error, getattr(error, "peer", ""))
            raise

    def _aligned(self, hub: Hub) -> Predictor:
        everything = np.arange(len(self._party.holding))
        return Predictor(self._party, self._trained, hub, everything)

    def _answer_next(self, predictor: Predictor) -> None:
        """Answer one request; without one, check that all parties are still connected."""
        try:
            job = self._jobs.get(timeout=TICK)
        except Empty:
            predictor.check()
            return
        if not job.result.set_running_or_notify_cancel():
            return  # the caller no longer waits
        try:
            job.result.set_result(predictor.probabilities(job.ids))
        except PartyError as error:
            job.result.set_exception(error)
        except Exception as error:
            self._left = {getattr(error, "peer", "")} - {""}
            self._common = None
            job.result.set_exception(self._lost())
            raise

    def _lost(self) -> Unavailable:
        """Return the error for a caller during whose request a party was lost."""
        names = ", ".join(sorted(self._left)) or "a party"
        return Unavailable(
            f"{names} does not answer",
            f"check that `vfl predict` runs at {names}; the service then continues by itself",
            sorted(self._left),
        )

    def _close(self) -> None:
        """End a session: close all lines and fail all waiting requests."""
        with self._queueing:
            self._common = None
        self._port.close_lines()
        while not self._jobs.empty():  # only this thread takes jobs
            job = self._jobs.get_nowait()
            if job.result.set_running_or_notify_cancel():
                job.result.set_exception(self._unavailable())
