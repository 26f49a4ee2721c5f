"""A whole run of three parties in this process, from certificates to metrics."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from three_parties import agreement, certify, party, write_data

from parties.data.holding import Holding
from parties.session.memory_port import MemoryPort
from parties.vertical.active import run_active
from parties.vertical.passive import run_passive

FEDORA = {"iterations": 2, "check_every": 2, "reference_epochs": 1, "utility_loss": 1.0}
QUICK = {
    "compare": ("fine-tune", "gradient-ascent", "relabel"),
    "retrains": 2,
    "gradient_ascent": {"steps": 1},
    "fine_tune": {"epochs": 1},
    "relabel": {"epochs": 1},
}
TRAINING = {"learning_rate": 0.01, "batch": 32, "epochs": 2}


def run(
    folder: Path,
    *,
    ids: dict[str, str] | None = None,
    fedora: dict[str, Any] | None = None,
    before: Callable[[Path], None] | None = None,
    party_changes: dict[str, Callable[[Holding], None]] | None = None,
    events: list[Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """The metrics of a run; ``ids`` are request files, ``before`` may change the data.

    ``events`` receives the events of the active party.
    """
    write_data(folder)
    certify(folder)
    if before:
        before(folder)
    for name, text in (ids or {}).items():
        (folder / f"{name}.txt").write_text(text)
    other = "task" in changes.get("labels", {})  # other labels compare no methods
    unlearning = {} if other else QUICK | {"fedora": FEDORA | (fedora or {})}
    plan = agreement(**{"training": TRAINING, "unlearning": unlearning, **changes})
    port = MemoryPort()
    received = {"hub": [] if events is None else events}
    parties = {
        name: party(folder, name, plan, received.get(name, []), ids or {})
        for name in plan["parties"]
    }
    for name, change in (party_changes or {}).items():
        change(parties[name].holding)

    def follow(name: str) -> None:
        run_passive(parties[name], lambda: port.connect(name))

    with ThreadPoolExecutor(3) as pool:
        active = pool.submit(run_active, parties["hub"], port, lambda metrics: None)
        others = [pool.submit(follow, name) for name in ("left", "right")]
        metrics = active.result(200)
        for other in others:
            other.result(10)
    return metrics
