"""A vertical federation in one process: each party is a thread, and messages stay in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from parties.common.progress import ProgressListener
from parties.data.holding import Holding
from parties.data.party_settings import VerticalConfig
from parties.data.predictions import Predictions
from parties.data.requested_ids import all_ids, id_columns, parse_ids
from parties.session.memory_port import MemoryPort
from parties.session.run_folder import lock_run_folder
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, trial_certificates
from parties.vertical.kept_model import recover_models
from parties.vertical.prediction.active import predict_vertical_rows
from parties.vertical.prediction.passive import serve_predictions
from parties.vertical.prediction.setup import set_up_trained_party
from parties.vertical.resume import prepare_start
from parties.vertical.run_party import run_party_in_process
from parties.vertical.service.active import serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.passive import serve_passive
from parties.vertical.service.queue import Door
from parties.vertical.setup import check_holding, set_up_party
from protocol.errors import Aborted

_Result = TypeVar("_Result")


def run_in_process(
    plan: SimulationPlan,
    listener: ProgressListener,
    holdings: Mapping[str, Holding] | None = None,
) -> dict[str, Any]:
    """Run every party in a thread of this process.

    Args:
        plan: the config, the folder of the runs, and the folder of the data.
        listener: receives progress and warnings.
        holdings: the data of each party, read and checked earlier; None: the parties read them.

    Returns:
        The metrics of the run.

    Raises:
        ConfigError: the config is for a horizontal run.
        RuntimeError: the active party returned no metrics.
        Exception: a party failed; the party's exception is raised again unchanged.
    """
    with _federation(plan) as federation:
        options = federation.options(plan)
        # Set up all parties before any thread starts, so that unreadable data ends the run at once.
        ready = {
            name: set_up_party(
                federation.config,
                name,
                options,
                listener,
                None if holdings is None else partial(_given, holdings[name]),
            )
            for name in federation.names
        }
        for name, each in ready.items():
            if holdings is not None:  # read for another agreement, such as one of a search
                check_holding(each.holding, each.agreement, name, each.settings)
            prepare_start(each, plan.begin)

        def play(name: str, port: MemoryPort) -> dict[str, Any] | None:
            return run_party_in_process(ready[name], port, lambda: port.connect(name), plan.out)

        metrics = _run_threads(federation.names, play)[federation.active]
    if metrics is None:
        raise RuntimeError("the active party returned no metrics")
    return metrics


def _given(holding: Holding, *_: Any, **__: Any) -> Holding:
    """The data of a party, in place of a function that reads them."""
    return holding


def read_holdings(plan: SimulationPlan, listener: ProgressListener) -> dict[str, Holding]:
    """Read and check the data of every party; see ``set_up_party`` for the errors."""
    with _federation(plan) as federation:
        return {
            name: set_up_party(federation.config, name, federation.options(plan), listener).holding
            for name in federation.names
        }


def predict_in_process(
    plan: SimulationPlan, texts: Sequence[str] | None, listener: ProgressListener
) -> Predictions:
    """Predict rows with the saved model of every party in the folder of the runs.

    Args:
        plan: the config, the folder of the runs, and the folder of the data.
        texts: the IDs of the rows; tabs separate several ID columns. None: all rows of the active
            party's data.
        listener: receives progress and warnings.

    Returns:
        The class probabilities of every ID.

    Raises:
        ConfigError: the config is for a horizontal run, or the model is that of another config.
        DataError: an ID has another form, or the active party has none of the rows.
        RuntimeError: the active party returned no predictions.
        StorageError: there is no saved model, or another process uses a party's folder.
        Exception: a party failed; the party's exception is raised again unchanged.
    """
    with _federation(plan) as federation:
        config, options, active = federation.config, federation.options(plan), federation.active
        columns = id_columns(config.settings(active).data)
        asked = None if texts is None else parse_ids(texts, columns)
        ids = None if asked is None else asked.ids
        ready = {
            name: set_up_trained_party(
                config, name, options, listener, ids if name == active else None
            )
            for name in federation.names
        }
        wanted = all_ids(ready[active][0].holding, columns) if asked is None else asked

        def play(name: str, port: MemoryPort) -> Predictions | None:
            if name == active:
                return predict_vertical_rows(*ready[name], port, wanted)
            serve_predictions(*ready[name], lambda: port.connect(name))
            return None

        found = _run_threads(federation.names, play)[active]
    if found is None:
        raise RuntimeError("the active party returned no predictions")
    return found


def serve_in_process(plan: SimulationPlan, door: Door, listener: ProgressListener) -> None:
    """Carry out all open requests with the kept models of all parties.

    Args:
        plan: the config, the folder of the runs, and the folder of the data.
        door: opens the queue of predictions of the active party.
        listener: receives progress and warnings.

    Raises:
        ConfigError: the config is for a horizontal run.
        StorageError: no model is kept, or another process uses a party's folder.
        Exception: a party failed; the party's exception is raised again unchanged.
    """
    with _federation(plan) as federation:
        options = federation.options(plan, serves=True)
        ready = {
            name: set_up_party(federation.config, name, options, listener)
            for name in federation.names
        }
        for each in ready.values():
            recover_models(each).require()

        def play(name: str, port: MemoryPort) -> None:
            party = ready[name]
            with closing(open_desk(party, party.agreement)) as desk:
                if name != federation.active:
                    serve_passive(party, lambda: port.connect(name), desk, once=True)
                    return
                with door(party) as predictions:
                    serve_active(party, port, desk, predictions, once=True)

        _run_threads(federation.names, play)


@dataclass(frozen=True, slots=True)
class _Federation:
    """All parties of a config, on this machine."""

    config: VerticalConfig
    keys: Path  # folder of the certificates of all parties

    @property
    def names(self) -> Sequence[str]:
        """The names of the parties."""
        return tuple(self.config.agreement.parties)

    @property
    def active(self) -> str:
        """The name of the active party."""
        return self.config.agreement.active

    def options(self, plan: SimulationPlan, *, serves: bool = False) -> StartOptions:
        """The options of every party's start."""
        return StartOptions(
            plan.out, plan.data, self.keys, plan.begin, serves=serves, continues=plan.continues
        )


@contextmanager
def _federation(plan: SimulationPlan) -> Iterator[_Federation]:
    """Lock the folders of all parties; leave the settings of torch as they were.

    Raises:
        ConfigError: the config is for another mode.
        StorageError: another process uses a party's folder.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        stack.callback(torch.use_deterministic_algorithms, strict)
        config, _, keys = stack.enter_context(trial_certificates(plan))
        if not isinstance(config.agreement, VerticalAgreement):
            raise ConfigError(
                "--in-process works only for runs of the vertical mode, but this is a "
                f"{config.agreement.mode} run",
                "remove --in-process",
            )
        for name in config.agreement.parties:
            stack.enter_context(lock_run_folder(plan.out / config.agreement.federation / name))
        yield _Federation(config, keys)


def _run_threads(
    names: Sequence[str], play: Callable[[str, MemoryPort], _Result]
) -> Mapping[str, _Result]:
    """Run ``play`` for every party in a thread; return the results.

    A party that fails, or an interrupt, ends all parties.

    Raises:
        Exception: the first failure that no other party caused.
    """
    port, failures = MemoryPort(), list[Exception]()

    def guarded(name: str) -> _Result:
        try:
            return play(name, port)
        except Exception as error:
            failures.append(error)
            port.close()
            raise

    with ThreadPoolExecutor(len(names)) as pool:
        runs = {name: pool.submit(guarded, name) for name in names}
        try:
            wait(runs.values())
        finally:
            port.close()  # after an interrupt, the threads end
    for error in sorted(failures, key=lambda error: isinstance(error, Aborted)):
        raise error  # parties that were aborted by the first failure come last
    return {name: run.result() for name, run in runs.items()}
