"""A request while a passive party's process is down, against the same request with all parties."""

import http.client
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic, sleep
from typing import Any

from request_federation import PATIENCE, RequestFederation, Service

from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.kept_model import party_models

PART = 500  # IDs of one HTTP request


@dataclass(frozen=True)
class Absence:
    """What was measured; accuracies are on the test rows that the request does not name.

    Attributes:
        during: accuracy of the predictions while the party is absent.
        after: accuracy of the predictions after the request was carried out.
        seconds: from the request to the first prediction without its rows, the party being absent.
        answered: predictions about rows of the request, the party being absent; 0 is right.
        equal: whether every party has the same parameters as after the same request with all
            parties.
    """

    during: float
    after: float
    seconds: float
    answered: int
    equal: bool


def live_through_absence(federation: RequestFederation, away: str, share: float) -> Absence:
    """Train, let ``away`` be absent, and request to forget ``share`` of the training rows."""
    out, present = federation.folder / "absent", federation.folder / "present"
    hub = federation.hub
    federation.train(out)
    shutil.copytree(out, present)
    store = party_models(federation.party(hub, out))
    kept = store.read(store.newest_version().number).tensors
    ids = [each.decode() for each in unpack_ids(kept["ids"])]
    train, test = (kept["rows"][name].tolist() for name in ("train", "test"))
    labels, classes = kept["labels"]["labels"].tolist(), federation.classes
    rows = sorted(Random(0).sample(train, round(share * len(train))))
    truth = {ids[row]: classes[labels[row]] for row in test}
    with federation.serve_http(out, [name for name in federation.roles if name != away]) as service:
        began = monotonic()
        request = federation.request(hub, out, rows)
        asked = [ids[row] for row in rows]
        while "class" in _predict(service, asked[:1])[0]:  # the request is not known yet
            assert monotonic() < began + PATIENCE, federation.notes(out)
            sleep(0.1)
        seconds = monotonic() - began
        answered = sum("class" in each for each in _predict(service, asked))
        during = _accuracy(service, truth)
        service.start(away)
        federation.wait_certified(service, request)
        after = _accuracy(service, truth)
    with federation.serve(present) as service:
        request = federation.request(hub, present, rows)
        federation.wait_certified(service, request)
    same = all(_digest(federation, name, out) == _digest(federation, name, present)
               for name in federation.roles)  # fmt: skip
    return Absence(during, after, seconds, answered, same)


def _digest(federation: RequestFederation, name: str, out: Any) -> str:
    """The digest of a party's part of the newest version."""
    newest = party_models(federation.party(name, out)).newest_version()
    found: str = newest.version.own["after"]
    return found


def _accuracy(service: Service, truth: dict[str, str]) -> float:
    found = {each["id"]: each.get("class") for each in _predict(service, list(truth))}
    return sum(found[name] == label for name, label in truth.items()) / len(truth)


def _predict(service: Service, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The predictions about ``ids``; waits until the service answers."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(ids), PART):
        end = monotonic() + PATIENCE
        while True:
            status, content = _post(service.http or "", ids[start : start + PART])
            if status == 200:
                break
            assert monotonic() < end, content
            sleep(0.1)
        found += content["predictions"]
    return found


def _post(address: str, ids: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Status and content of the answer; 0 if nobody listens yet."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        body = json.dumps({"ids": list(ids)})
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except ConnectionRefusedError as error:
        return 0, {"error": str(error)}
    finally:
        connection.close()
