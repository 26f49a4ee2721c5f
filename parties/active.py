"""The active party's role program: it holds the labels, leads every step and writes the report."""

import platform
from dataclasses import asdict
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np

from parties import join
from parties.align import lead
from parties.compare import ORIGINAL, compare, train
from parties.errors import public
from parties.federation import Federation
from parties.ground import ground
from parties.learn import Epoch, accuracy, best_epoch
from parties.measure import nothing, record
from parties.party import Party
from parties.requests import Chosen, choose, plant
from parties.save import save_half
from parties.schedule import Index
from protocol import vfl_pb2
from protocol.hub import Hub

GUARANTEE = "heuristic, audited"  # FedORA has no certificate; see SECURITY.md
KEPT = (
    "preprocessing statistics, where a party has any, were fitted with the forgotten rows: "
    "FedORA keeps them, Retrain fits them anew",
    "the number of epochs and the hyper-parameters were chosen with the forgotten rows",
    "every party's own source data, from which each must delete the rows itself",
)
LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn", "grpcio", "protobuf", "cryptography")


def run_active(party: Party, port: join.Port) -> dict[str, Any]:
    """Join, align, train, carry out every request, and return the metrics of the run."""
    started = perf_counter()
    hub = join.welcome(party, port)
    try:
        metrics = _lead(party, hub)
    except Exception as error:
        hub.abort(*public(error))
        raise
    finally:
        hub.close()
    metrics["run"]["seconds"] = perf_counter() - started
    return metrics


def _lead(party: Party, hub: Hub) -> dict[str, Any]:
    alignment = lead(party, hub)
    federation = Federation(party, hub, alignment)
    run = _run(party, hub, federation, len(alignment))
    chosen = choose(party, alignment, federation.rows, federation.labels)
    del alignment  # from here on the row map is the federation's, which erases what is forgotten
    plant(chosen, federation.labels, len(party.agreement.labels.classes))
    planted = np.concatenate([np.empty(0, np.int64), *(each.canaries for each in chosen)])
    epochs = train(federation, vfl_pb2.LEARN, ORIGINAL, "training")
    run["test_accuracy"] = accuracy(federation, vfl_pb2.TEST)
    requests = []
    while chosen:
        requests.append(_carry_out(federation, chosen.pop(0), planted))
    features = federation.goodbye()
    save_half(party, federation.half, features)
    return {
        "run": run,
        "training": _training(federation, epochs),
        "requests": requests,
        "traffic": party.ledger.by_phase(),
        "peers": party.ledger.by_peer(),
    }


def _carry_out(federation: Federation, chosen: Chosen, planted: Index) -> dict[str, Any]:
    before = federation.rows
    if len(chosen.rows):
        federation.forget(chosen.rows)
    rows = federation.rows
    dropped = {
        "validation": len(before.validation) - len(rows.validation),
        "test": len(before.test) - len(rows.test),
    }
    if len(rows.forgotten):
        figures = _figures(federation, chosen, planted)
    else:
        figures = nothing(federation, chosen)
    return {
        **figures,
        "dropped": dropped,
        "purged": federation.purge() if len(chosen.rows) else {},
        "kept": list(KEPT),
    }


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


def _run(party: Party, hub: Hub, federation: Federation, common: int) -> dict[str, Any]:
    agreement, rows = party.agreement, federation.rows
    return {
        "federation": agreement.federation,
        "session": (next(iter(hub.channels.values())).session or b"").hex(),
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
        "common_rows": common,
        "psi": {"security": agreement.psi.security},
        "rows": {
            "learn": len(rows.learn),
            "validation": len(rows.validation),
            "test": len(rows.test),
        },
        "guarantee": GUARANTEE,
    }
