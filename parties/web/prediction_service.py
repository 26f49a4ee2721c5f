"""Prediction as a service: one worker owns the federation, and takes parties back that return."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Lock
from typing import Any

import numpy as np

from configs.party_settings import Data
from parties.common.errors import PartyError
from parties.data.predictions import Probabilities
from parties.session import handshake
from parties.vertical.engine.party import VerticalParty
from parties.vertical.prediction.active import Predictor
from parties.vertical.prediction.setup import TrainedNetwork
from protocol.errors import PeerSilent, ProtocolError
from protocol.hub import Hub
from protocol.line import Line

TICK = 0.25  # seconds between two looks at whether we should stop and everybody is there
MAX_WAITING = 64  # requests that may wait for their turn
MAX_LATENCIES = 10_000  # latencies


class ServiceStopped(ProtocolError):
    """The operator ends the service; peers that have just joined may know."""


class Unavailable(Exception):
    """No prediction now.

    Attributes:
        absent: parties that are gone.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str, absent: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.hint, self.absent = hint, list(absent)


class Latencies:
    """How long the latest requests took."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MAX_LATENCIES)
        self._lock = Lock()
        self.requests = self.rows = 0

    def add(self, seconds: float, rows: int) -> None:
        """One request was answered."""
        with self._lock:
            self._seconds.append(seconds)
            self.requests, self.rows = self.requests + 1, self.rows + rows

    def summary(self) -> dict[str, Any]:
        """Counts, and milliseconds of which half and 99 of 100 requests stay below."""
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
    found: "Future[Probabilities]"


class _Doorman:
    """The port while we serve: waits as long as we do, and knows who is here."""

    def __init__(self, port: handshake.SpokePort, stopped: Event) -> None:
        self._port, self._stopped = port, stopped
        self._lines: list[Line] = []

    @property
    def here(self) -> set[str]:
        """Who has come since the last farewell."""
        return {str(line.peer) for line in self._lines}

    def accept(self, timeout: float) -> Line:  # noqa: ARG002  ours is not to be late for a date
        """The next spoke's line, however late; raises ``ServiceStopped`` when the service ends."""
        while not self._stopped.is_set():
            try:
                line = self._port.accept(TICK)
            except PeerSilent:
                continue
            self._lines.append(line)
            return line
        raise ServiceStopped("stopped serving")

    def farewell(self) -> None:
        """Close every line, so that its party may dial again."""
        lines, self._lines = self._lines, []
        for line in lines:
            line.close()


class PredictionService:
    """Predictions for callers in other threads.

    Attributes:
        stopped: set to end the service.
        latencies: of answered requests; who answers callers adds to them.
        failure: what ended the worker other than ``stopped``.
    """

    def __init__(self, party: VerticalParty, trained: TrainedNetwork, port: handshake.SpokePort) -> None:
        self.stopped, self.latencies = Event(), Latencies()
        self.failure: Exception | None = None
        self._party, self._trained = party, trained
        self._doorman = _Doorman(port, self.stopped)
        self._jobs: Queue[_Job] = Queue(MAX_WAITING)
        self._queueing = Lock()  # no request is queued after those that waited were turned away
        self._common: int | None = None  # rows that all hold, while all are here
        self._left: set[str] = set()  # who ended the last conversation

    # --- for callers ------------------------------------------------------------------------------

    @property
    def classes(self) -> Sequence[str]:
        """Names of the classes."""
        return self._party.agreement.labels.classes

    @property
    def data(self) -> Data:
        """The party's data settings, which name the ID columns."""
        return self._party.settings.data

    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """[ids, classes], NaN where not all parties hold the row.

        Raises:
            Unavailable: a party is absent, or the answer would come too late.
            PartyError: these rows cannot be predicted.
        """
        job, patience = _Job(ids, Future()), 2 * self._party.agreement.limits.step_seconds
        self._queue(job)
        try:
            return job.found.result(patience)
        except TimeoutError:
            job.found.cancel()
            raise Unavailable(f"no answer in {patience:g} s", "try again") from None

    def health(self) -> dict[str, Any]:
        """Who is here, how many rows all hold, and how fast answers came."""
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
                    f"{MAX_WAITING} requests wait already", "ask for more rows in one request"
                ) from None

    def _absent(self) -> list[str]:
        if self._common is not None:
            return []
        absent = set(self._party.agreement.passive) - self._doorman.here
        return sorted(absent & self._left or absent)

    def _unavailable(self) -> Unavailable:
        if self.stopped.is_set():
            return Unavailable("the service is ending", "start it again")
        absent = self._absent()
        if not absent:
            return Unavailable("the parties are finding their common rows", "try again in a moment")
        names = " and ".join(absent)
        return Unavailable(
            f"{names} {'is' if len(absent) == 1 else 'are'} absent",
            f"run `vfl predict` at {names} again: this service goes on by itself",
            absent,
        )

    # --- the worker -------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until ``stopped``; whoever leaves is waited for, and all align anew."""
        while not self.stopped.is_set():
            try:
                self._converse()
            except ServiceStopped:
                return
            except ProtocolError as error:
                self._left = {error.peer} - {""}
                self._party.progress.warn(str(error))
            except Exception as error:  # noqa: BLE001  handed to the thread that waits for us
                self.failure = error
                self.stopped.set()
            finally:
                self._close()

    def _converse(self) -> None:
        """One conversation with all parties."""
        hub, _ = handshake.accept_spokes(self._party, self._doorman)
        try:
            predictor = self._aligned(hub)
            self._party.progress.phase("serving")
            self._common, self._left = len(predictor), set()
            while not self.stopped.is_set():
                self._work(predictor)
            predictor.goodbye()
        except Exception as error:
            handshake.abort_channels(hub, error, getattr(error, "peer", ""))
            raise

    def _aligned(self, hub: Hub) -> Predictor:
        everything = np.arange(len(self._party.holding))
        return Predictor(self._party, self._trained, hub, everything)

    def _work(self, predictor: Predictor) -> None:
        """Answer one request, or see that everybody is still there."""
        try:
            job = self._jobs.get(timeout=TICK)
        except Empty:
            predictor.check()
            return
        if not job.found.set_running_or_notify_cancel():
            return  # its caller has gone
        try:
            job.found.set_result(predictor.probabilities(job.ids))
        except PartyError as error:
            job.found.set_exception(error)
        except Exception as error:
            self._left = {getattr(error, "peer", "")} - {""}
            self._common = None
            job.found.set_exception(self._lost())
            raise

    def _lost(self) -> Unavailable:
        """What the caller hears whose request found a party gone."""
        names = ", ".join(sorted(self._left)) or "a party"
        return Unavailable(
            f"{names} does not answer",
            f"is `vfl predict` still running at {names}? When it is back, the service goes on",
            sorted(self._left),
        )

    def _close(self) -> None:
        """After a conversation: nobody is here, and who waits hears so."""
        with self._queueing:
            self._common = None
        self._doorman.farewell()
        while not self._jobs.empty():  # this thread alone takes from it
            job = self._jobs.get_nowait()
            if job.found.set_running_or_notify_cancel():
                job.found.set_exception(self._unavailable())
