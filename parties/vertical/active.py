"""The active party's role program: it holds the labels, leads every step and writes the report."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from parties.common.errors import StorageError, exit_code, public
from parties.common.shared_randomness import Index
from parties.report import VERSION
from parties.session import handshake as join
from parties.session.checkpoint_offer import Held
from parties.session.party import Party
from parties.vertical.engine.plant import plant
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import Epoch, accuracy, best_epoch, early_epoch
from parties.vertical.evaluation.compare import compare
from parties.vertical.evaluation.metrics import nothing, record
from parties.vertical.evaluation.row_groups import ground
from parties.vertical.methods.method import ORIGINAL
from parties.vertical.methods.registry import method
from parties.vertical.privacy.claims import claims, summary
from parties.vertical.privacy.ledger import Spent
from parties.vertical.privacy.spending import account
from parties.vertical.purge import purge, search
from parties.vertical.requests import Chosen, choose
from parties.vertical.resume import Losses, begin, newest
from parties.vertical.saved_model import save_half
from parties.vertical.training_run import train
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.hub import Hub

Publish = Callable[[dict[str, Any]], None]
FITTED = (
    "preprocessing statistics, where a party has any, were fitted with the forgotten rows: "
    "only Retrain fits them anew"
)
COPY = "a copy of the model from early in this unlearning, at which the next request begins"
KEPT = (
    "the number of epochs and the hyper-parameters were chosen with the forgotten rows",
    "every party's own source data, from which each must delete the rows itself",
)
LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn", "grpcio", "protobuf", "cryptography")


def run_active(party: Party, port: join.Port, publish: Publish) -> dict[str, Any]:
    """Join, align or go on, train, carry out every request; the metrics of the run.

    ``publish`` gets them before the others are let go, and what there is of them after a failure.
    """
    losses = Losses(party, partial(newest, party))
    while True:
        hub, offers = losses.retry(partial(join.welcome, party, port))
        try:
            return _session(party, hub, offers, publish)
        except ProtocolError as error:
            losses.bear(error)


def _session(
    party: Party, hub: Hub, offers: Mapping[str, Held], publish: Publish
) -> dict[str, Any]:
    try:
        return _lead(begin(party, hub, offers), publish)
    except Exception as error:
        hub.abort(*public(error))
        raise
    finally:
        hub.close()


def _lead(federation: Federation, publish: Publish) -> dict[str, Any]:
    party = federation.party
    metrics: dict[str, Any] = {
        "version": VERSION,
        "run": _run(federation),
        "training": None,
        "requests": [],
        "failure": None,
    }
    try:
        _story(federation, metrics)
    except Exception as error:
        known = exit_code(error) is not None
        metrics["failure"] = str(error) if known else f"unexpected {type(error).__name__}"
        _publish_partial(party, publish, metrics | _sums(party))
        raise
    metrics["run"]["privacy"] = _privacy(federation, account(federation))
    metrics |= _sums(party)
    metrics["run"]["seconds"] = party.ledger.elapsed
    save_half(party, federation.state, federation.run)
    publish(metrics)
    federation.goodbye()
    return metrics


def _publish_partial(party: Party, publish: Publish, metrics: dict[str, Any]) -> None:
    """What there is; that it cannot be written must not hide why the run failed."""
    try:
        publish(metrics)
    except (StorageError, ValueError) as error:
        party.watch.warn(f"no partial report: {error}")


def _sums(party: Party) -> dict[str, Any]:
    """What crossed, by phase and by peer."""
    return {"traffic": party.ledger.by_phase(), "peers": party.ledger.by_peer()}


def _story(federation: Federation, metrics: dict[str, Any]) -> None:
    """Train, then carry out every request; ``metrics`` grows on the way."""
    chosen = federation.once("requests", list[Chosen], lambda: _choose(federation))
    plant(federation, chosen)
    planted = np.concatenate([np.empty(0, np.int64), *(each.canaries for each in chosen)])
    early = early_epoch(federation.agreement)
    epochs = train(federation, vfl_pb2.LEARN, ORIGINAL, "training", early)
    metrics["training"] = _training(federation, epochs)
    tested = federation.once("test", float, lambda: accuracy(federation, vfl_pb2.TEST))
    metrics["run"]["test_accuracy"] = tested
    federation.checkpoint()
    while chosen:
        metrics["requests"].append(_carry_out(federation, chosen.pop(0), planted))


def _choose(federation: Federation) -> list[Chosen]:
    rows = federation.state.features.rows
    return choose(federation.party, rows, federation.rows, federation.labels)


def _carry_out(federation: Federation, chosen: Chosen, planted: Index) -> dict[str, Any]:
    before = federation.rows
    if len(chosen.rows):
        federation.forget(chosen.rows)
    rows = federation.rows
    dropped = {
        "validation": len(before.validation) - len(rows.validation),
        "test": len(before.test) - len(rows.test),
    }
    name = chosen.request.name
    if len(rows.forgotten):
        work = partial(_figures, federation, chosen, planted)
        figures = federation.once(f"figures of {name}", dict, work)
    else:
        figures = nothing(federation, chosen)
    return {
        **figures,
        "dropped": dropped,
        "purged": purge(federation, name) if len(chosen.rows) else {},
        "remains": _remains(federation, name) if len(chosen.rows) else {},
        "kept": _kept(federation),
    }


def _remains(federation: Federation, name: str) -> dict[str, list[str]]:
    """Where parties still find rows of the request after its purge, in memory and in files."""
    look = partial(search, federation)
    return federation.once(f"search after {name}", dict, look, durable=False)


def _kept(federation: Federation) -> list[str]:
    """What still remembers the rows."""
    fitted = [FITTED] if federation.agreement.preprocessing == "fitted" else []
    early = [COPY] if early_epoch(federation.agreement) else []
    return [*fitted, *early, *KEPT]


def _figures(federation: Federation, chosen: Chosen, planted: Index) -> dict[str, Any]:
    """Compare and measure; the logits of the compared models live no longer than this call."""
    where = ground(federation, chosen, planted)
    found = compare(federation, chosen.request)
    federation.party.watch.phase("audit")
    return record(federation, chosen, where, found)


def _training(federation: Federation, epochs: list[Epoch]) -> dict[str, Any]:
    stops_early = federation.agreement.training.patience is not None
    return {
        "stream": ORIGINAL,
        "epochs": [asdict(epoch) for epoch in epochs],
        "best_epoch": best_epoch(epochs) if stops_early else epochs[-1].epoch,
    }


def _privacy(federation: Federation, spent: Mapping[str, Spent]) -> dict[str, Any]:
    """What may be claimed of each party's features and labels, and why no more."""
    found = claims(federation.agreement, spent)
    return {"summary": summary(found), "claims": [asdict(each) for each in found]}


def _run(federation: Federation) -> dict[str, Any]:
    party, rows = federation.party, federation.start
    agreement = party.agreement
    return {
        "federation": agreement.federation,
        "session": federation.run.hex(),
        "agreement": party.digest.hex(),
        "seed": agreement.seed,
        "software": {name: version(name) for name in LIBRARIES}
        | {"python": platform.python_version()},
        "parties": [
            {
                "name": name,
                "role": each.role,
                "width": each.width,
                "threads": party.seat.threads if name == party.name else None,
            }
            for name, each in agreement.parties.items()
        ],
        "common_rows": len(federation.labels),
        "psi": {"security": agreement.psi.security},
        "rows": {
            "learn": len(rows.learn),
            "validation": len(rows.validation),
            "test": len(rows.test),
        },
        "overlap": agreement.training.overlap,
        "guarantee": method(agreement.unlearning.method).guarantee.value,
        "privacy": _privacy(federation, {}),
        "test_accuracy": None,
        "seconds": None,
    }
