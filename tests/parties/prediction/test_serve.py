"""The prediction service: HTTP requests, parties that leave and return, and refused requests."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from asking import Spoke, add_giant, ask, made, party_of, service, until
from three_parties import agreement

from configs.errors import ConfigError
from parties.common.errors import StorageError
from parties.session.memory_port import MemoryPort
from parties.web.prediction_http import MAX_BODY, parse_serve_address, serve_http
from parties.web.prediction_service import Latencies, PredictionService, Unavailable
from protocol.errors import RemoteProtocolError


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("once"))


@pytest.fixture
def trained(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path / "trained")


def gives_up(*_: Any) -> None:
    raise RemoteProtocolError("gives up for a reason of its own")


Said = tuple[int, Any]


def say(port: int, method: str, path: str, body: Any = None, **headers: str) -> Said:
    """Status and content of one answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def serving(once: Path) -> Iterator[int]:
    """The port of a service that is ready."""
    with service(once) as (ready, _, _), serve_http(("127.0.0.1", 0), ready) as port:
        yield port


def test_a_request_is_answered_with_the_numbers_of_a_batch(serving: int, once: Path) -> None:
    ids = [text for text, name, _ in ask(once).rows() if name][:3]
    status, said = say(serving, "POST", "/predict", {"ids": [*ids, "stranger"]})
    assert status == 200
    for got, wanted in zip(said["predictions"], ask(once, ids).as_json(), strict=False):
        assert got["class"] == wanted["class"]
        assert got["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-12)
    assert said["predictions"][3] == {"id": "stranger", "status": "not held by all parties"}


def test_health_says_who_is_here_and_how_fast_answers_came(serving: int) -> None:
    say(serving, "POST", "/predict", {"ids": ["p1", "p2"]})
    status, said = say(serving, "GET", "/health")
    assert status == 200
    assert said["ready"] is True
    assert said["parties"] == {"hub": "here", "left": "here", "right": "here"}
    assert said["requests"] >= 1
    assert said["rows"] >= 2
    assert 0 < said["p50_ms"] <= said["p99_ms"]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/predict", b"{", {}, 400),
        ("POST", "/predict", b"[" * 100_000, {}, 400),
        ("POST", "/predict", b"\xff", {}, 400),
        ("POST", "/predict", ["p1"], {}, 400),
        ("POST", "/predict", {"ids": []}, {}, 400),
        ("POST", "/predict", {"ids": "p1"}, {}, 400),
        ("POST", "/predict", {"ids": [1]}, {}, 400),
        ("POST", "/predict", {"ids": [" "]}, {}, 400),
        ("POST", "/predict", {"ids": ["p1"], "more": 1}, {}, 400),
        ("POST", "/predict", {"ids": ["p1\tp2"]}, {}, 400),
        ("POST", "/predict", b"", {"Content-Length": str(MAX_BODY + 1)}, 413),
        ("POST", "/predict", b"", {"Content-Length": "-1"}, 411),
        ("POST", "/predict", b"2\r\n{}\r\n", {"Transfer-Encoding": "chunked"}, 411),
        ("POST", "/predict", {"ids": ["p1"]}, {"Origin": "http://page.example"}, 403),
        ("POST", "/health", {"ids": ["p1"]}, {}, 404),
        ("GET", "/predict", None, {}, 404),
        ("GET", "/", None, {}, 404),
    ],
)  # fmt: skip
def test_a_request_that_is_none_is_refused_and_the_service_goes_on(
    serving: int, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    got, said = say(serving, method, path, body, **headers)
    assert got == status
    assert said["error"]
    assert "p1" not in said["error"]
    assert say(serving, "POST", "/predict", {"ids": ["p1"]})[0] == 200


def test_a_party_that_is_gone_is_named_and_its_return_is_taken_in(trained: Path) -> None:
    with service(trained) as (ready, port, spokes), serve_http(("127.0.0.1", 0), ready) as http:
        spokes["left"].kill()
        status, said = say(http, "POST", "/predict", {"ids": ["p1"]})
        assert status == 503
        until(lambda: ready.health()["parties"]["right"] == "here")
        status, said = say(http, "POST", "/predict", {"ids": ["p1"]})
        assert (status, said["absent"]) == (503, ["left"])
        assert "left is absent" in said["error"]
        assert "vfl predict" in said["hint"]
        assert ready.health()["parties"] == {"hub": "here", "left": "absent", "right": "here"}
        spokes["left"] = Spoke(trained, "left", port)
        until(lambda: ready.health()["ready"])
        assert say(http, "POST", "/predict", {"ids": ["p1"]})[0] == 200
    assert spokes["left"].failure is spokes["right"].failure is None  # goodbye was said to both


def test_a_small_request_is_one_question_to_every_passive_party(once: Path) -> None:
    with service(once) as (ready, _, _):
        ledger, ids = ready._party.traffic, ready._party.holding.ids
        for size in (1, 10, len(ids)):
            before = ledger.total("Predict").messages
            ready.probabilities(ids[:size])
            assert ledger.total("Predict").messages - before == 2


def test_callers_at_one_time_each_get_their_own_rows(serving: int, once: Path) -> None:
    expected = {row["id"]: row for row in ask(once).as_json()}
    ids = list(expected)

    def get(at: int) -> None:
        wanted = ids[at : at + 3]
        status, said = say(serving, "POST", "/predict", {"ids": wanted})
        assert status == 200
        for row in said["predictions"]:
            assert row.get("class") == expected[row["id"]].get("class")
        assert [row["id"] for row in said["predictions"]] == wanted

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(get, range(60)))


def test_a_row_that_cannot_be_predicted_fails_its_own_request_only(trained: Path) -> None:
    add_giant(trained)
    with service(trained) as (ready, _, _), serve_http(("127.0.0.1", 0), ready) as http:
        status, said = say(http, "POST", "/predict", {"ids": ["p1", "giant"]})
        assert status == 500
        assert "left: embeddings of these rows are beyond limits.magnitude" in said["error"]
        assert say(http, "POST", "/predict", {"ids": ["p1"]})[0] == 200


def test_a_service_that_ends_says_so_to_who_asks(once: Path) -> None:
    with service(once) as (ready, _, _):
        ready.stopped.set()
        until(lambda: not ready.health()["ready"])
        with pytest.raises(Unavailable, match="the service is ending"):
            ready.probabilities([b"p1"])


def test_a_wrong_visitor_is_turned_away_and_takes_no_other_with_it(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["right"].kill()
        until(lambda: ready.health()["parties"]["left"] == "here" and not ready.health()["ready"])
        wrong = Spoke(trained, "right", port, agreement(seed=6))
        wrong.thread.join(10)
        assert "the agreements differ: seed is 5 at hub and 6 at right" in str(wrong.failure)
        spokes["right"] = Spoke(trained, "right", port)
        until(lambda: ready.health()["ready"])
        assert spokes["left"].failure is None


def test_a_death_is_noticed_while_nobody_asks(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["right"].kill()
        until(
            lambda: ready.health()["parties"] == {"hub": "here", "left": "here", "right": "absent"}
        )
        spokes["right"] = Spoke(trained, "right", port)
        until(lambda: ready.health()["ready"])


def test_a_party_that_gives_up_takes_no_other_with_it(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["left"].trained.network.register_forward_pre_hook(gives_up)
        with pytest.raises(Unavailable, match="left does not answer"):
            ready.probabilities(ready._party.holding.ids)
        spokes["left"].thread.join(10)
        assert isinstance(spokes["left"].failure, RemoteProtocolError)
        spokes["left"] = Spoke(trained, "left", port)
        until(lambda: ready.health()["ready"])
        assert spokes["right"].failure is None


def test_a_party_that_falls_silent_is_named_to_who_asked(once: Path) -> None:
    plan = agreement(limits={"join_seconds": 20.0, "step_seconds": 3.0})
    with service(once, plan) as (ready, _, spokes):
        spokes["right"].lines[-1]._outbox.put = lambda *_: None
        with pytest.raises(Unavailable, match="right does not answer") as error:
            ready.probabilities(ready._party.holding.ids)
        assert error.value.absent == ["right"]
        until(lambda: ready.health()["ready"])  # it dials anew


def test_without_all_parties_nothing_is_predicted(once: Path) -> None:
    alone = PredictionService(*party_of(once, "hub"), MemoryPort())
    worker = Thread(target=alone.run)
    worker.start()
    with pytest.raises(Unavailable, match="left and right are absent"):
        alone.probabilities([b"p1"])
    alone.stopped.set()
    worker.join(5)
    assert not worker.is_alive()
    assert alone.failure is None


def test_percentiles_are_of_the_requests_that_were_answered() -> None:
    latencies = Latencies()
    assert latencies.summary() == {"requests": 0, "rows": 0, "p50_ms": None, "p99_ms": None}
    for milliseconds in range(101):
        latencies.add(milliseconds / 1e3, 2)
    assert latencies.summary() == {"requests": 101, "rows": 202, "p50_ms": 50.0, "p99_ms": 99.0}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_without_a_host_only_this_machine_is_served(text: str, address: tuple[str, int]) -> None:
    assert parse_serve_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "host:", "host:70000", "host:-1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        parse_serve_address(text)


def test_a_port_that_is_taken_is_refused(serving: int, once: Path) -> None:
    with (
        pytest.raises(StorageError, match=f"cannot listen on 127.0.0.1:{serving}"),
        serve_http(("127.0.0.1", serving), None),  # type: ignore[arg-type]
    ):
        pass
