"""A request while a passive party's process is down, against the same request with all parties."""

import http.client
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import torch
from request_federation import PATIENCE, RequestFederation, Service
from torch import Tensor

from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.kept_model import party_models, present_version
from parties.vertical.methods.fallback import fit_fallback_top, kept_embeddings
from protocol.hub import Hub
from unlearning.audit.forgetting import label_log_odds
from unlearning.audit.scores import ScoredRows, within_class_auc

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
        leak_during: AUC of the attack on the fallback model, which takes rows with a high log-odds
            of their label for forgotten rows, among test rows of the same class. The attacker has
            the embeddings of the forgotten rows, which the active party still keeps.
        leak_after: the same of the model after the request, from the journal.
    """

    during: float
    after: float
    seconds: float
    answered: int
    equal: bool
    leak_during: float
    leak_after: float


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
        middle = federation.folder / "middle"
        shutil.copytree(out, middle)
        service.start(away)
        federation.wait_certified(service, request)
        after = _accuracy(service, truth)
    leaks = (
        _leak_of_fallback(federation, middle, rows, test),
        _recorded_leak(federation, out, request),
    )
    with federation.serve(present) as service:
        request = federation.request(hub, present, rows)
        federation.wait_certified(service, request)
    same = all(_digest(federation, name, out) == _digest(federation, name, present)
               for name in federation.roles)  # fmt: skip
    return Absence(during, after, seconds, answered, same, *leaks)


def _leak_of_fallback(
    federation: RequestFederation, out: Path, rows: Sequence[int], test: Sequence[int]
) -> float:
    """The AUC of the attack on the fallback model that the active party fits without ``rows``."""
    with federation.local(federation.hub, out, reads_data=True) as local:
        party = local.party
    store = party_models(party)
    model = SplitModel.resume(party, Hub({}), store, present_version(store), store.offer().run)
    found = kept_embeddings(model)
    assert found is not None
    labels, embeddings = model.labels.clone(), found.clone()
    gone = torch.tensor(rows)
    model.forget(gone.numpy())
    embeddings[gone] = 0
    fit_fallback_top(model, embeddings)
    network = model.local_model.model.network
    assert isinstance(network, ActiveNetwork)
    widths = [each.width or 0 for each in party.agreement.feature_parties.values()]

    def scored(chosen: Tensor) -> ScoredRows:
        with torch.no_grad():
            logits = network(list(torch.split(found[chosen], widths, dim=1)))
        scores = label_log_odds(logits, labels[chosen])
        return ScoredRows(scores.double().numpy(), labels[chosen].numpy())

    auc = within_class_auc(scored(gone), scored(torch.tensor(test)))
    assert auc is not None
    return auc.value


def _recorded_leak(federation: RequestFederation, out: Path, request: str) -> float:
    """The AUC of the attack on the model after the request, which the active party recorded."""
    return float(federation.figures(out, request)["membership_auc"])


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
