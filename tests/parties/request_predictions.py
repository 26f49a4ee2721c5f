"""Predictions over HTTP while requests run and a party restarts, against ``vfl predict``."""

import http.client
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Any

from request_federation import RequestFederation, Service

from parties.vertical.kept_model import kept_rows, party_models

TOLERANCE = 1e-4  # of a probability; batches of another size round differently
TIMEOUT = 120.0  # seconds of one HTTP request
# Seconds after the receipts in which the active party may still name the request as the reason: it
# first exchanges the journals once more.
GRACE = 2.0


@dataclass(frozen=True)
class Answer:
    """One HTTP request for one ID: when it was sent and answered, and the answer.

    ``status`` is 0 if there was no HTTP answer.
    """

    id: str
    sent: float
    received: float
    status: int
    content: dict[str, Any]


@dataclass(frozen=True)
class Forgotten:
    """A request to forget: its IDs, and moments of its life in seconds."""

    ids: frozenset[str]
    raising: float  # before it was raised
    raised: float  # after its party had recorded it
    certified: float  # after every party had the receipt


@dataclass(frozen=True)
class Outage:
    """The time in which a party was down, or was connecting again."""

    party: str
    begin: float
    end: float


class PredictionLoad:
    """A client that asks for one random ID at a time, at a fixed rate, in its own threads."""

    def __init__(self, address: str, ids: Sequence[str], rate: float) -> None:
        self._address, self._ids, self._rate = address, list(ids), rate
        self._stop = Event()
        self.answers: list[Answer] = []

    def run(self) -> None:
        """Ask until ``stop`` is called; then wait for all answers."""
        random, began, number = Random(0), monotonic(), 0
        with ThreadPoolExecutor(64) as pool:
            futures = list[Future[Answer]]()
            while not self._stop.is_set():
                futures.append(pool.submit(self._ask, random.choice(self._ids)))
                number += 1
                sleep(max(0.0, began + number / self._rate - monotonic()))
            self.answers = [each.result() for each in futures]

    def stop(self) -> None:
        """End the load."""
        self._stop.set()

    def _ask(self, name: str) -> Answer:
        sent = monotonic()
        try:
            status, content = ask(self._address, name)
        except OSError as error:
            status, content = 0, {"error": str(error)}
        return Answer(name, sent, monotonic(), status, content)


def ask(address: str, name: str) -> tuple[int, dict[str, Any]]:
    """Status and content of the answer about one ID.

    Raises:
        OSError: there is no answer.
    """
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    try:
        body = json.dumps({"ids": [name]})
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


@dataclass
class PredictionTrial:
    """The moments of a trial, and the predictions of every version of the model.

    Attributes:
        versions: for each version, the class probabilities by ID.
        requests: the requests, in their order; request number i makes version i + 1.
        outages: the outages.
        hub: the active party.
    """

    versions: list[dict[str, dict[str, float]]]
    requests: list[Forgotten]
    outages: list[Outage]
    hub: str

    def judge(self, answer: Answer) -> str:
        """One word for an answer; ``wrong ...`` and ``failed ...`` are faults."""
        if answer.status != 200:
            return self._judge_failure(answer)
        (found,) = answer.content["predictions"]
        predicted = found.get("probabilities")
        if predicted is None:
            known = any(answer.id in each.ids for each in self.requests
                        if each.raising <= answer.received)  # fmt: skip
            return "withheld" if known else "wrong: no prediction about a row that is not frozen"
        if any(answer.id in each.ids and each.raised <= answer.sent for each in self.requests):
            return "wrong: predicted a frozen row"
        first = sum(each.certified <= answer.sent for each in self.requests)
        last = sum(each.raising <= answer.received for each in self.requests)
        for version in self.versions[first : last + 1]:
            expected = version.get(answer.id)
            if expected is not None and all(
                abs(expected[name] - predicted[name]) <= TOLERANCE for name in expected
            ):
                return "right"
        return "wrong: not the prediction of a version that could be in use"

    def _judge_failure(self, answer: Answer) -> str:
        absent = set(answer.content.get("absent", ()))
        if answer.status != 503 or not absent:
            reason = "" if answer.status else f": {answer.content.get('error')}"
            return f"failed with {answer.status}{reason}"
        causes = {
            each.party
            for each in self.outages
            if each.begin <= answer.received and answer.sent <= each.end
        }
        if any(
            e.raising <= answer.received and answer.sent <= e.certified + GRACE
            for e in self.requests
        ):
            causes.add(self.hub)
        return "unavailable" if absent & causes else f"failed: 503 names {sorted(absent)}"

    def count(self, answers: Sequence[Answer]) -> Counter[str]:
        """The number of answers of each kind."""
        return Counter(map(self.judge, answers))


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """How long a trial takes, and what happens during it."""

    seconds: float
    rate: float  # predictions a second
    requests: int  # requests to forget, one after the other, by the parties in turn
    restarts: int  # restarts of the last party
    rows: int = 20  # rows of each request

    def moments(self) -> list[tuple[float, str]]:
        """Seconds from the start, and ``request`` or ``restart``, in order."""
        asked = [self.seconds * (each + 0.4) / self.requests for each in range(self.requests)]
        down = [self.seconds * (each + 0.8) / (self.restarts + 1) for each in range(self.restarts)]
        return sorted([(at, "request") for at in asked] + [(at, "restart") for at in down])


def run_trial(
    federation: RequestFederation, trained: Path, plan: TrialPlan, report: Callable[[str], None]
) -> tuple[Counter[str], float]:
    """Predict for some seconds, raise requests at even moments, and restart one party.

    Returns:
        The number of answers of each kind, and the seconds that the trial took.
    """
    out = federation.folder / "predicting"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(trained, out)
    store = party_models(federation.party(federation.hub, out))
    by_row = {row: each.decode() for each, row in kept_rows(store).items()}
    trial = PredictionTrial([], [], [], federation.hub)
    copies = [_copy(federation, out, 0)]
    with federation.serve_http(out) as service, ThreadPoolExecutor(1) as pool:
        _wait_ready(service, next(iter(by_row.values())))
        load = PredictionLoad(service.http or "", list(by_row.values()), plan.rate)
        began, running = monotonic(), pool.submit(load.run)
        try:
            for moment, what in plan.moments():
                sleep(max(0.0, began + moment - monotonic()))
                if what == "restart":
                    trial.outages.append(_restart(service, next(iter(by_row.values()))))
                else:
                    trial.requests.append(_forget(service, plan, len(trial.requests), by_row))
                    copies.append(_copy(federation, out, len(trial.requests)))
                report(f"{what} after {moment:.0f} s")
            sleep(max(0.0, began + plan.seconds - monotonic()))
        finally:
            load.stop()
            running.result()
        duration = monotonic() - began
        service.stop()
    trial.versions = [federation.predict(each) for each in copies]
    faulty = [each for each in load.answers if trial.judge(each).startswith(("wrong", "failed"))]
    for each in faulty[:10]:
        report(f"{trial.judge(each)}: {each}")
    return trial.count(load.answers), duration


def _wait_ready(service: Service, name: str) -> None:
    """Wait until predictions are answered."""
    deadline = monotonic() + TIMEOUT
    while True:
        try:
            if ask(service.http or "", name)[0] == 200:
                return
        except OSError:
            pass
        assert monotonic() < deadline, service.federation.notes(service.out)
        sleep(0.1)


def _restart(service: Service, some_id: str) -> Outage:
    """Kill the last party, and start it again; wait until predictions are answered."""
    begin, name = monotonic(), list(service.federation.roles)[-1]
    service.kill(name)
    sleep(1.0)
    service.start(name)
    _wait_ready(service, some_id)
    return Outage(name, begin, monotonic())


def _forget(service: Service, plan: TrialPlan, number: int, by_row: Mapping[int, str]) -> Forgotten:
    """Raise request ``number``, from 0, and wait until it is certified."""
    chosen = Random(1).sample(sorted(by_row), plan.rows * plan.requests)
    rows = chosen[plan.rows * number : plan.rows * (number + 1)]
    names, raising = list(service.federation.roles), monotonic()
    request = service.federation.request(names[number % len(names)], service.out, rows)
    raised = monotonic()
    service.federation.wait_certified(service, request)
    return Forgotten(frozenset(by_row[each] for each in rows), raising, raised, monotonic())


def _copy(federation: RequestFederation, out: Path, number: int) -> Path:
    """A copy of the saved models at this moment."""
    copy = federation.folder / f"version {number}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(out, copy)
    return copy
