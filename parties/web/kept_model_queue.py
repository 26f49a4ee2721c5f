"""Predictions of a kept model for callers in other threads, while a party serves."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Lock
from typing import Any, TypeAlias

from configs.targets import Task
from parties.common.errors import PartyError
from parties.data.predictions import Probabilities
from parties.data.sources.source import DataSettings
from parties.vertical.engine.party import VerticalParty
from parties.vertical.service.queue import PredictsRows
from parties.web.prediction_http import parse_serve_address, serve_http
from parties.web.prediction_service import MAX_WAITING, Latencies, Unavailable

CARRYING_OUT = "carries out a request to forget rows"


Door: TypeAlias = AbstractContextManager["KeptModelPredictions"]


@dataclass(frozen=True, slots=True)
class _Job:
    ids: Sequence[bytes]
    result: "Future[tuple[Probabilities, bool]]"  # and whether a fallback model predicted


class KeptModelPredictions:
    """The queue of prediction requests of a party that serves.

    Attributes:
        latencies: durations of the answered requests.
        fallback: whether a fallback model predicts now.
        asked: whether there may be callers.
    """

    def __init__(self, party: VerticalParty, *, asked: bool = True) -> None:
        self._party, self.latencies, self.asked = party, Latencies(), asked
        self._jobs: Queue[_Job] = Queue(MAX_WAITING)
        self._queueing = Lock()
        self._closed: Unavailable | None = self._absent(list(party.agreement.passive))
        self.fallback = False
        self._missing: Sequence[str] = ()  # absent parties, while a fallback model predicts

    @property
    def task(self) -> Task:
        """What the model predicts."""
        return self._party.agreement.labels.task

    @property
    def classes(self) -> Sequence[str]:
        """The names of the classes."""
        return self._party.agreement.labels.classes

    @property
    def data(self) -> DataSettings:
        """The party's data settings, which name the ID columns."""
        return self._party.settings.data

    def answer(self, ids: Sequence[bytes]) -> tuple[Probabilities, bool]:
        """Return class probabilities, [ids, classes], and whether a fallback model predicted.

        The probabilities are NaN for rows without a prediction.

        Raises:
            Unavailable: a party is absent, a request is being carried out, or it takes too long.
        """
        job, patience = _Job(ids, Future()), 2 * self._party.limits.step_seconds
        with self._queueing:
            if self._closed is not None:
                raise self._closed
            try:
                self._jobs.put_nowait(job)
            except Full:
                raise Unavailable(
                    f"the queue of {self._party.name} is full: {MAX_WAITING} predictions wait",
                    "send more IDs in one request",
                    [self._party.name],
                ) from None
        try:
            return job.result.result(patience)
        except TimeoutError:
            job.result.cancel()
            raise Unavailable(
                f"{self._party.name} did not predict within {patience:g} s",
                "try again",
                [self._party.name],
            ) from None

    def health(self) -> dict[str, Any]:
        """Return whether predictions are answered now, who is absent, and statistics."""
        closed = self._closed
        absent = self._missing if closed is None else closed.absent
        return {
            "ready": closed is None,
            "fallback": self.fallback,
            "parties": {
                name: "absent" if name in absent else "here"
                for name in self._party.agreement.parties
            },
            **self.latencies.summary(),
        }

    # --- for the thread that has the connections --------------------------------------------------

    def open(self, *, fallback: bool = False, absent: Sequence[str] = ()) -> None:
        """Accept jobs from now on.

        Args:
            fallback: whether a fallback model predicts.
            absent: parties that are absent.
        """
        with self._queueing:
            self._closed, self.fallback, self._missing = None, fallback, absent

    def close_absent(self, names: Sequence[str]) -> None:
        """Refuse jobs from now on, because the parties ``names`` are absent."""
        self._close(self._absent(names))

    def close_busy(self) -> None:
        """Refuse jobs from now on, because a request is being carried out."""
        name = self._party.name
        self._close(Unavailable(f"{name} {CARRYING_OUT}", "try again in a minute", [name]))

    def _close(self, reason: Unavailable) -> None:
        """Refuse jobs from now on, and those that wait, because of ``reason``."""
        with self._queueing:
            self._closed, self.fallback = reason, False
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job.result.set_running_or_notify_cancel():
                job.result.set_exception(reason)

    def _absent(self, names: Sequence[str]) -> Unavailable:
        """Return the reason that parties are absent."""
        listed = " and ".join(names)
        return Unavailable(
            f"{listed} {'is' if len(names) == 1 else 'are'} absent",
            f"start `vfl serve` at {listed}; predictions then continue by themselves",
            names,
        )

    def answer_next(self, predictor: PredictsRows, seconds: float) -> bool:
        """Answer one job, and wait for it at most ``seconds``; return whether there was one.

        Raises:
            ProtocolError: a party was lost; the caller of the job gets ``Unavailable``.
        """
        try:
            job = self._jobs.get(timeout=seconds)
        except Empty:
            return False
        if not job.result.set_running_or_notify_cancel():
            return True  # the caller no longer waits
        try:
            job.result.set_result((predictor.probabilities(job.ids), self.fallback))
        except PartyError as error:
            job.result.set_exception(error)
        except Exception as error:
            peer = getattr(error, "peer", "")
            job.result.set_exception(self._absent([peer or self._party.name]))
            raise
        return True


def prediction_door(http: str | None) -> Callable[[VerticalParty], Door]:
    """Return a function that opens the queue of a party, and an HTTP server if an address is given.

    Raises:
        ConfigError: ``http`` is not an address.
    """
    address = None if http is None else parse_serve_address(http)

    @contextmanager
    def opened(party: VerticalParty) -> Iterator[KeptModelPredictions]:
        queue = KeptModelPredictions(party, asked=address is not None)
        if address is None:
            yield queue
            return
        with serve_http(address, queue) as number:
            party.progress.note(f"predictions at http://{address[0]}:{number}")
            yield queue

    return opened
