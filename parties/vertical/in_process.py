"""A vertical run in one process: each party is a thread, and messages are passed in memory."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from parties.common.progress import ProgressListener
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, trial_certificates
from parties.vertical.resume import prepare_start
from parties.vertical.run_party import run_party_in_process
from parties.vertical.setup import set_up_party
from protocol.errors import Aborted


def run_in_process(plan: SimulationPlan, listener: ProgressListener) -> dict[str, Any]:
    """Run every party in a thread of this process, for debugging and tests.

    Returns:
        The metrics of the run.

    Raises:
        ConfigError: the config is for a horizontal run.
        RuntimeError: the active party returned no metrics.
        Exception: a party failed; the party's exception is raised again unchanged.
    """
    with trial_certificates(plan) as (config, _, keys):
        if not isinstance(config.agreement, VerticalAgreement):
            raise ConfigError(
                "--in-process works only for vertical runs, but the config is for a horizontal run",
                "remove --in-process",
            )
        options = StartOptions(plan.out, plan.data, keys, plan.begin, continues=plan.continues)
        port = MemoryPort()

        # Set up all parties before any thread starts, so that unreadable data ends the run at once.
        ready = {
            name: set_up_party(config, name, options, listener) for name in config.agreement.parties
        }
        for each in ready.values():
            prepare_start(each, plan.begin)

        def play(name: str) -> dict[str, Any] | None:
            return run_party_in_process(ready[name], port, lambda: port.connect(name), plan.out)

        with ThreadPoolExecutor(len(ready)) as pool:
            runs = {name: pool.submit(play, name) for name in ready}
        failures = [error for error in (run.exception() for run in runs.values()) if error]
        for error in sorted(failures, key=lambda error: isinstance(error, Aborted)):
            raise error  # the first failure; parties that were aborted by it come last
        metrics = runs[config.agreement.active].result()
    if metrics is None:
        raise RuntimeError("the active party returned no metrics")
    return metrics
