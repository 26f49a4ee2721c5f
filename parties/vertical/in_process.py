"""A whole federation inside this process: threads and memory lines, for debugging and tests."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from configs.errors import ConfigError
from configs.schema import Config
from parties.common.progress import Listener
from parties.session.memory_port import MemoryPort
from parties.session.setup import Place, take_seat
from parties.session.simulation import Plan, certified
from parties.vertical.resume import prepare
from parties.vertical.run_party import play_in_process
from protocol.errors import Aborted


def in_process(plan: Plan, listener: Listener) -> dict[str, Any]:
    """Run every role in a thread of this process; the metrics of the run.

    Raises:
        Exception: the failure of a party, as it was raised.
    """
    with certified(plan) as (config, _, keys):
        if not isinstance(config, Config):
            raise ConfigError(
                "a horizontal run has no --in-process: simulated clients share a pool"
            )
        place, port = Place(plan.out, plan.data, keys, plan.begin), MemoryPort()

        # All seats before any thread: what a party cannot read ends the run at once.
        seated = {
            name: take_seat(config, name, place, listener) for name in config.agreement.parties
        }
        for each in seated.values():
            prepare(each, plan.begin)

        def play(name: str) -> dict[str, Any] | None:
            return play_in_process(seated[name], port, lambda: port.connect(name), plan.out)

        with ThreadPoolExecutor(len(seated)) as pool:
            runs = {name: pool.submit(play, name) for name in seated}
        failures = [error for error in (run.exception() for run in runs.values()) if error]
        for error in sorted(failures, key=lambda error: isinstance(error, Aborted)):
            raise error  # who only heard of another's failure comes last
        metrics = runs[config.agreement.active].result()
    if metrics is None:
        raise RuntimeError("the active party returned no metrics")
    return metrics
