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
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from prediction_parties import (
    Spoke,
    add_row_with_large_embedding,
    party_of,
    predict_rows,
    service,
    trained_parties,
    wait_until,
)
from three_parties import agreement

from configs.errors import ConfigError
from parties.common.errors import StorageError
from parties.session.memory_port import MemoryPort
from parties.web.prediction_http import MAX_BODY, parse_serve_address, serve_http
from parties.web.prediction_service import Latencies, PredictionService, Unavailable
from protocol.errors import RemoteProtocolError


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_parties(tmp_path_factory.mktemp("once"))


@pytest.fixture
def trained(trained_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_folder, tmp_path / "trained")


def raise_error(*_: Any) -> None:
    raise RemoteProtocolError("gives up for a reason of its own")


Reply = tuple[int, Any]


def call(port: int, method: str, path: str, body: Any = None, **headers: str) -> Reply:
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
def serving(trained_folder: Path) -> Iterator[int]:
    """The port of a service that is ready."""
    with service(trained_folder) as (ready, _, _), serve_http(("127.0.0.1", 0), ready) as port:
        yield port


def test_service_and_batch_predict_equal_numbers(serving: int, trained_folder: Path) -> None:
    ids = [text for text, name, _ in predict_rows(trained_folder).rows() if name][:3]
    status, reply = call(serving, "POST", "/predict", {"ids": [*ids, "stranger"]})
    assert status == 200
    for got, expected in zip(
        reply["predictions"], predict_rows(trained_folder, ids).as_json(), strict=False
    ):
        assert got["class"] == expected["class"]
        assert got["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-12)
    assert reply["predictions"][3] == {"id": "stranger", "status": "not held by all parties"}


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_service_predicts_other_labels_as_a_batch_does(tmp_path: Path, task: str) -> None:
    labels, write = (NUMBER, write_diabetes) if task == "regression" else (LABELS, write_multilabel)
    trained = trained_parties(tmp_path, before=write, labels=labels)
    plan = agreement(labels=labels)
    with service(trained, plan) as (ready, _, _), serve_http(("127.0.0.1", 0), ready) as http:
        found = predict_rows(trained, None, plan).rows()
        ids = [text for text, _, row in found if row is not None][:2]
        status, reply = call(http, "POST", "/predict", {"ids": [*ids, "stranger"]})
    assert status == 200
    expected = predict_rows(trained, ids, plan).as_json()
    for got, wanted in zip(reply["predictions"], expected, strict=False):
        assert {*got} == {*wanted}
        key = "value" if task == "regression" else "probabilities"
        assert got[key] == pytest.approx(wanted[key], abs=1e-9)
        assert "class" not in got
    assert reply["predictions"][2] == {"id": "stranger", "status": "not held by all parties"}


def test_health_reports_parties_and_latencies(serving: int) -> None:
    call(serving, "POST", "/predict", {"ids": ["p1", "p2"]})
    status, reply = call(serving, "GET", "/health")
    assert status == 200
    assert reply["ready"] is True
    assert reply["parties"] == {"hub": "here", "left": "here", "right": "here"}
    assert reply["requests"] >= 1
    assert reply["rows"] >= 2
    assert 0 < reply["p50_ms"] <= reply["p99_ms"]


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
def test_invalid_request_is_refused_and_the_service_continues(
    serving: int, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    got, reply = call(serving, method, path, body, **headers)
    assert got == status
    assert reply["error"]
    assert "p1" not in reply["error"]
    assert call(serving, "POST", "/predict", {"ids": ["p1"]})[0] == 200


def test_absent_party_is_named_and_may_return(trained: Path) -> None:
    with service(trained) as (ready, port, spokes), serve_http(("127.0.0.1", 0), ready) as http:
        spokes["left"].kill()
        status, reply = call(http, "POST", "/predict", {"ids": ["p1"]})
        assert status == 503
        wait_until(lambda: ready.health()["parties"]["right"] == "here")
        status, reply = call(http, "POST", "/predict", {"ids": ["p1"]})
        assert (status, reply["absent"]) == (503, ["left"])
        assert "left is absent" in reply["error"]
        assert "vfl predict" in reply["hint"]
        assert ready.health()["parties"] == {"hub": "here", "left": "absent", "right": "here"}
        spokes["left"] = Spoke(trained, "left", port)
        wait_until(lambda: ready.health()["ready"])
        assert call(http, "POST", "/predict", {"ids": ["p1"]})[0] == 200
    assert spokes["left"].failure is spokes["right"].failure is None  # both received Goodbye


def test_request_sends_one_message_to_each_passive_party(trained_folder: Path) -> None:
    with service(trained_folder) as (ready, _, _):
        ledger, ids = ready._party.traffic, ready._party.holding.ids
        for size in (1, 10, len(ids)):
            before = ledger.total("Predict").messages
            ready.probabilities(ids[:size])
            assert ledger.total("Predict").messages - before == 2


def test_concurrent_requests_get_their_own_rows(serving: int, trained_folder: Path) -> None:
    expected = {row["id"]: row for row in predict_rows(trained_folder).as_json()}
    ids = list(expected)

    def predict_at(at: int) -> None:
        requested = ids[at : at + 3]
        status, reply = call(serving, "POST", "/predict", {"ids": requested})
        assert status == 200
        for row in reply["predictions"]:
            assert row.get("class") == expected[row["id"]].get("class")
        assert [row["id"] for row in reply["predictions"]] == requested

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(predict_at, range(60)))


def test_unpredictable_row_fails_only_its_own_request(trained: Path) -> None:
    add_row_with_large_embedding(trained)
    with service(trained) as (ready, _, _), serve_http(("127.0.0.1", 0), ready) as http:
        status, reply = call(http, "POST", "/predict", {"ids": ["p1", "giant"]})
        assert status == 500
        assert (
            "left: embeddings of these rows are not finite or exceed limits.magnitude"
            in reply["error"]
        )
        assert call(http, "POST", "/predict", {"ids": ["p1"]})[0] == 200


def test_ending_service_refuses_requests(trained_folder: Path) -> None:
    with service(trained_folder) as (ready, _, _):
        ready.stopped.set()
        wait_until(lambda: not ready.health()["ready"])
        with pytest.raises(Unavailable, match="the service is ending"):
            ready.probabilities([b"p1"])


def test_party_of_another_agreement_is_refused_and_the_others_stay(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["right"].kill()
        wait_until(
            lambda: ready.health()["parties"]["left"] == "here" and not ready.health()["ready"]
        )
        wrong = Spoke(trained, "right", port, agreement(seed=6))
        wrong.thread.join(10)
        assert "the agreements differ: seed is 5 at hub and 6 at right" in str(wrong.failure)
        spokes["right"] = Spoke(trained, "right", port)
        wait_until(lambda: ready.health()["ready"])
        assert spokes["left"].failure is None


def test_lost_party_is_noticed_without_a_request(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["right"].kill()
        wait_until(
            lambda: ready.health()["parties"] == {"hub": "here", "left": "here", "right": "absent"}
        )
        spokes["right"] = Spoke(trained, "right", port)
        wait_until(lambda: ready.health()["ready"])


def test_failing_party_does_not_disconnect_the_others(trained: Path) -> None:
    with service(trained) as (ready, port, spokes):
        spokes["left"].trained.network.register_forward_pre_hook(raise_error)
        with pytest.raises(Unavailable, match="left does not answer"):
            ready.probabilities(ready._party.holding.ids)
        spokes["left"].thread.join(10)
        assert isinstance(spokes["left"].failure, RemoteProtocolError)
        spokes["left"] = Spoke(trained, "left", port)
        wait_until(lambda: ready.health()["ready"])
        assert spokes["right"].failure is None


def test_silent_party_is_named_in_the_error_of_the_request(trained_folder: Path) -> None:
    plan = agreement(limits={"join_seconds": 20.0, "step_seconds": 3.0})
    with service(trained_folder, plan) as (ready, _, spokes):
        spokes["right"].lines[-1]._outbox.put = lambda *_: None
        with pytest.raises(Unavailable, match="right does not answer") as error:
            ready.probabilities(ready._party.holding.ids)
        assert error.value.absent == ["right"]
        wait_until(lambda: ready.health()["ready"])  # the party reconnects


def test_prediction_needs_all_parties(trained_folder: Path) -> None:
    alone = PredictionService(*party_of(trained_folder, "hub"), MemoryPort())
    worker = Thread(target=alone.run)
    worker.start()
    with pytest.raises(Unavailable, match="left and right are absent"):
        alone.probabilities([b"p1"])
    alone.stopped.set()
    worker.join(5)
    assert not worker.is_alive()
    assert alone.failure is None


def test_percentiles_cover_answered_requests() -> None:
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
def test_address_without_host_means_loopback(text: str, address: tuple[str, int]) -> None:
    assert parse_serve_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "host:", "host:70000", "host:-1"])
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_serve_address(text)


def test_used_port_is_refused(serving: int, trained_folder: Path) -> None:
    with (
        pytest.raises(StorageError, match=f"cannot listen on 127.0.0.1:{serving}"),
        serve_http(("127.0.0.1", serving), None),  # type: ignore[arg-type]
    ):
        pass
