"""Trackers of runs: the figures of trainings and methods, written for TensorBoard or MLflow."""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, Protocol

from configs.errors import ConfigError
from parties.common.errors import StorageError
from parties.common.libraries import require_extra
from parties.common.progress import Event, ProgressListener, numbers
from parties.report import METRICS, REPORT

RESULT = "result"  # name of the series of the trained model's own figures
_FORMS = "give tensorboard:FOLDER, mlflow, or mlflow:ADDRESS"


class Tracker(Protocol):
    """Receives the figures of a run.

    Attributes:
        name: name of the program that shows the figures.
    """

    name: str

    def write(self, series: str, step: int, figures: Mapping[str, float]) -> None:
        """Write the figures of one step, by name; ``series`` names the training or method."""

    def finish(self, settings: Mapping[str, str], folder: Path) -> None:
        """Write the agreement's settings, by key, and what is in the folder of the finished run."""

    def close(self) -> None:
        """Write what is not written yet; the run has ended or failed."""


class TensorBoardTracker:
    """Writes event files of TensorBoard into ``folder``, of one run in a folder of its own."""

    name = "TensorBoard"

    def __init__(self, folder: Path, run: str) -> None:
        from tensorboardX import SummaryWriter

        try:
            self._writer = SummaryWriter(str(folder / run))
        except OSError as error:
            raise StorageError(
                f"the folder {folder} for TensorBoard cannot be written: {error.strerror}",
                "name another folder with --track tensorboard:FOLDER",
            ) from error

    def write(self, series: str, step: int, figures: Mapping[str, float]) -> None:
        """Write one point per figure; a curve is named by the series and the figure."""
        for name, value in figures.items():
            self._writer.add_scalar(f"{series}/{name}", value, step)

    def finish(self, settings: Mapping[str, str], folder: Path) -> None:
        """Write the settings as a table, and the path of the report."""
        rows = [f"| {key} | {value} |" for key, value in settings.items()]
        text = "\n".join(["| setting | value |", "| --- | --- |", *rows])
        self._writer.add_text("settings", text)
        self._writer.add_text("report", str(folder / REPORT))

    def close(self) -> None:
        """Write the last points."""
        self._writer.close()


class MlflowTracker:
    """Writes one run of MLflow, in the experiment with the name of the federation."""

    name = "MLflow"

    def __init__(self, address: str, experiment: str, run: str) -> None:
        require_extra("mlflow", "--track mlflow")
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            self._client = MlflowClient(address or None)
            known = self._client.get_experiment_by_name(experiment)
            chosen = known.experiment_id if known else self._client.create_experiment(experiment)
            self._run = self._client.create_run(chosen, run_name=run).info.run_id
        except MlflowException as error:
            raise ConfigError(
                f"MLflow at {address or 'its default address'} cannot be used: {error.message}",
                "check the address in --track mlflow:ADDRESS",
            ) from error
        self._finished, self._written = False, list[Future[Any]]()
        self._thread = ThreadPoolExecutor(1)

    def write(self, series: str, step: int, figures: Mapping[str, float]) -> None:
        """Log one metric per figure, in a thread, so that a slow service does not delay the run."""
        from mlflow.entities import Metric

        now = int(1000 * time())
        metrics = [
            Metric(_allowed(f"{series}/{name}"), value, now, step)
            for name, value in figures.items()
        ]
        self._written.append(self._thread.submit(self._client.log_batch, self._run, metrics))

    def finish(self, settings: Mapping[str, str], folder: Path) -> None:
        """Log the report and the record as artefacts, and the settings as parameters."""
        for each in self._written:
            each.result()  # raises an error if the service failed meanwhile
        for name in (REPORT, METRICS):
            self._client.log_artifact(self._run, str(folder / name))
        for key, value in settings.items():
            self._client.log_param(self._run, _allowed(key), value[:500])
        self._finished = True

    def close(self) -> None:
        """End the run, as failed if it did not finish."""
        self._thread.shutdown(cancel_futures=True)
        self._client.set_terminated(self._run, "FINISHED" if self._finished else "FAILED")


class Tracking:
    """Passes the events of a run on, and their figures to trackers.

    Args:
        trackers: receive the figures.
        federation: name of the federation.
        listener: receives all events, and a warning if a tracker fails.
    """

    def __init__(
        self, trackers: list[Tracker], federation: str, listener: ProgressListener
    ) -> None:
        self._trackers, self._party, self._listener = trackers, federation, listener

    def receive(self, event: Event) -> None:
        """Pass one event on."""
        self._listener(event)
        if event["event"] == "figures":
            self._write(event["series"], event["step"], event["figures"])

    def finish(self, metrics: dict[str, Any], folder: Path) -> None:
        """Write the figures of the finished run, whose record is ``metrics``."""
        if not self._trackers:
            return
        from parties.report.record import read_record

        record = read_record(metrics)
        self._write(RESULT, 0, numbers(dict(record.model or ())))
        for request in record.requests:
            for method in request.methods:
                figures = {each.name: each.value for each in method.figures}
                of_rows = {f"accuracy_{kind}": v for kind, v in (method.accuracy or {}).items()}
                self._write(f"{request.name}: {method.name}", 0, numbers(figures | of_rows))
        settings = dict(_flat(record.run.settings or {}))
        self._each(lambda tracker: tracker.finish(settings, folder))

    def close(self) -> None:
        """Close all trackers."""
        self._each(lambda tracker: tracker.close())

    def _write(self, series: str, step: int, figures: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.write(series, step, figures))

    def _each(self, work: Callable[[Tracker], None]) -> None:
        """Do something with every tracker; one that fails is dropped, and the run goes on."""
        for tracker in [*self._trackers]:
            try:
                work(tracker)
            except Exception as error:  # noqa: BLE001  a run must not end because of a tracker
                self._trackers.remove(tracker)
                with suppress(Exception):
                    tracker.close()
                text = f"{tracker.name} does not get the figures any more: {error}"
                self._listener({"event": "warning", "party": self._party, "text": text})


@contextmanager
def tracking(targets: list[str], federation: str, listener: ProgressListener) -> Iterator[Tracking]:
    """Open the trackers of a run in a ``with`` block.

    Args:
        targets: the trackers, in the form of ``--track``.
        federation: name of the federation; the run gets the present time as its name.
        listener: receives all events.

    Raises:
        ConfigError: a target has another form, its service cannot be used, or its library is not
            installed.
        StorageError: a folder cannot be written.
    """
    run = datetime.now(UTC).strftime("%Y-%m-%d %H.%M.%S")
    openers = [_opener(each, federation, run) for each in targets]  # all forms are checked first
    with closing(Tracking([open_one() for open_one in openers], federation, listener)) as found:
        yield found


def _opener(target: str, federation: str, run: str) -> Callable[[], Tracker]:
    kind, _, where = target.partition(":")
    if kind == "tensorboard" and where:
        return lambda: TensorBoardTracker(Path(where), f"{federation} {run}")
    if kind == "mlflow":
        return lambda: MlflowTracker(where, federation, run)
    raise ConfigError(f"--track {target} names no known tracker", _FORMS)


def _allowed(name: str) -> str:
    """A name without the characters that MLflow refuses."""
    return re.sub(r"[^\w./ -]", "-", name)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The settings with dotted keys, as texts."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
