"""Runs of a config from a Python program: simulate, predict, and forget rows."""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import pandas as pd

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile
from configs.errors import ConfigError
from configs.experiments import inline_toml
from parties.cli.console import Console
from parties.cli.modes import read_runnable
from parties.cli.party_run import plan_simulation, simulate_parties
from parties.cli.requests.asking import Asked, submit_request
from parties.cli.requests.evidence import CheckedReceipt, checked_receipt
from parties.cli.requests.place import Place, vertical_desk
from parties.cli.requests.views import view_of
from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import PolicyError, StorageError
from parties.data.predictions import NOT_HELD, PREDICTED, Predictions
from parties.python.frames import id_texts
from parties.report import METRICS, REPORT
from parties.report.record import RunRecord, read_record
from parties.report.sentences import run_sentence
from parties.requests.lifecycle import CARRIED_OUT, RequestState
from parties.session.simulation import trial_certificates
from parties.web.kept_model_queue import prediction_door
from unlearning.receipts.receipt import LegalBasis

if TYPE_CHECKING:
    from parties.common.progress import ProgressListener
    from parties.session.simulation import SimulationPlan
    from parties.vertical.offline.local_desk import VerticalDesk

Config: TypeAlias = str | Path | Mapping[str, Any]


def simulate(
    config: Config,
    *,
    out: str | Path = "runs",
    data: str | Path | None = None,
    progress: bool = True,
    processes: bool = False,
    **changes: Any,
) -> "Run":
    """Run all parties of a config on this machine, and return the finished run.

    Args:
        config: the name of a shipped run, such as ``"digits"``; the path of a config file; or the
            content of a config as a dictionary, whose relative data paths are resolved in the
            working directory.
        out: folder of the runs; the files of the run are in ``out/FEDERATION``.
        data: folder in which relative data paths are resolved.
        progress: whether to print the phases of the run.
        processes: whether every party of a vertical run is a process of its own, as in the command
            ``vfl simulate``; a script then needs ``if __name__ == "__main__":``. The parties of the
            other modes always run as in that command.
        **changes: changed settings. A dictionary changes the settings of a table and leaves the
            others: ``training={"epochs": 5}`` is ``--set training.epochs=5``.

    Raises:
        ConfigError: the config, or a changed setting, is not valid.
        DataError: the data of a party cannot be used.
        StorageError: the folder of the runs cannot be used.
        Failed: the process of a party failed.
        PartyError: a party failed in another way.
    """
    run = Run.open(config, out=out, data=data, progress=progress, **changes)
    run._simulate(processes=processes)
    return run


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of a request to forget rows.

    Attributes:
        request: the ID of the request; None if the model knows none of the rows.
        found: the number of IDs by what was found. ``aligned``: the model knows the row.
            ``not_common``: another party lacks the row. ``not_held``: the party that took the
            request lacks the row. ``forgotten``: an earlier request forgot the row.
        receipt: the receipt that all parties have signed; None if there is no request.
    """

    request: str | None
    found: Mapping[str, int]
    receipt: CheckedReceipt | None

    def _repr_html_(self) -> str:
        """Return a summary for a notebook."""
        if self.receipt is None:
            return "<p>The model knows none of these rows, so nothing was changed.</p>"
        done = self.receipt.receipt
        facts = {
            "request": self.request,
            "rows forgotten": self.found["aligned"],
            "method": done.method,
            "guarantee": done.guarantee.kind.value,
            "version of the model": f"{done.version_before} → {done.version_after}",
            "signed by": ", ".join(each.party for each in done.parties),
            "receipt": self.receipt.page,
        }
        return _html_table(facts)


class Run:
    """A run of all parties on this machine, with the models that the parties keep.

    Attributes:
        folder: the folder of the run, with the report and a folder for every party.
    """

    def __init__(self, plan: "SimulationPlan", config: ConfigFile[Any, Any], *, progress: bool):
        self._plan, self._config, self._progress = plan, config, progress
        self._modules: Mapping[str, object] = {}  # own networks, which exist as long as the run
        self.folder: Path = plan.out / config.agreement.federation

    @classmethod
    def open(
        cls,
        config: Config,
        *,
        out: str | Path = "runs",
        data: str | Path | None = None,
        progress: bool = True,
        **changes: Any,
    ) -> Self:
        """Open the run that ``simulate`` made with the same arguments.

        Raises:
            ConfigError: the config, or a changed setting, is not valid.
            StorageError: the folder of the runs cannot be used.
        """
        path = _config_file(config, Path(out)) if isinstance(config, Mapping) else Path(config)
        options = (path, tuple(_changes(changes)), Path(out), None if data is None else Path(data))
        plan = plan_simulation(*options)
        found = read_runnable(plan.config, plan.changes)
        # A name of a federation contains no dot, so this is the folder of no other run.
        keys = plan.out / f"{found.agreement.federation}.certs"
        return cls(plan_simulation(*options, keys=keys), found, progress=progress)

    def __reduce__(self) -> str:
        """Refuse to copy a run: its model is in the files of the parties.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a run is not copied: its models are in the folders of the parties, and a copy would "
            "keep what the parties forget; vfl.Run.open opens the folder"
        )

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def metrics(self) -> RunRecord:
        """The record of the run: all figures of the report, with a type for every field.

        Raises:
            StorageError: the run has not ended.
            DataError: another version of vfl wrote the record.
        """
        path = self._written(METRICS)
        return read_record(json.loads(path.read_bytes()), str(path))

    def report(self) -> Path:
        """Return the path of the report, an HTML page.

        Raises:
            StorageError: the run has not ended.
        """
        return self._written(REPORT)

    def predict(
        self, ids: Sequence[str] | None = None, *, data: str | Path | None = None
    ) -> pd.DataFrame:
        """Predict rows with the kept model of every party.

        Args:
            ids: the IDs of the rows; tabs separate the columns of an ID. None: all rows of the
                active party.
            data: folder in which relative data paths are resolved; None: that of the run.

        Returns:
            A data frame [ids, 2 + classes], indexed by ID: ``status``, ``class``, and the
            probability of each class in the columns ``p_CLASS``. A row that a party lacks, or that
            was forgotten, has another status, and no class.

        Raises:
            ConfigError: the run is not a vertical run.
            DataError: ``ids`` is one text or empty, an ID has another form, or the active party has
                none of the rows.
            PolicyError: no row is common to all parties.
            StorageError: no model is kept.
        """
        return _frame(predictions_of(self, None if ids is None else id_texts(ids), data))

    def unlearn(
        self, ids: Sequence[str], *, party: str | None = None, ground: str = "not-stated"
    ) -> Forgotten:
        """Let all parties forget rows, as ``vfl unlearn request`` and ``vfl unlearn run`` do.

        Args:
            ids: the IDs of the rows; tabs separate the columns of an ID.
            party: the party that takes the request; None: the active party.
            ground: the legal ground, a word of ``vfl unlearn request --ground``.

        Returns:
            The result, with the receipt that all parties have signed.

        Raises:
            ConfigError: the run is not a vertical run, or ``ground`` is unknown.
            DataError: ``ids`` is one text or empty, or an ID has another form.
            PolicyError: a party's policy needs the key of a person, or the request was not carried
                out, because the model lost too much accuracy.
            StorageError: no model is kept.
        """
        name = self._vertical().active if party is None else party
        if ground not in [*LegalBasis]:
            raise ConfigError(
                f"the ground {ground[:40]!r} is unknown", f"give one of {', '.join(LegalBasis)}"
            )
        asked = Asked(
            ids=None, identities=tuple(id_texts(ids)), label=None, fraction="1", seed=0,
            encoding="utf-8", ground=ground, received=None, identity_check="", requester="",
            requested_by="controller", key=None,
        )  # fmt: skip
        with self._desk(name, reads_data=True) as local:
            submitted = submit_request(local, asked)
        if submitted.request is None:
            return Forgotten(None, submitted.found, None)
        from parties.vertical.in_process import serve_in_process

        with self._listener() as listener:
            serve_in_process(self._plan, prediction_door(None), listener)
        with self._desk(name) as local:
            view = view_of(local, submitted.request)
            if view.state not in CARRIED_OUT:
                raise PolicyError(
                    f"the request {view.id} is {view.state.value}: {view.reason or 'not approved'}",
                    "vfl unlearn show prints what is known about a request"
                    if view.state is not RequestState.RECEIVED
                    else "approve the request with vfl unlearn approve",
                )
            return Forgotten(view.id, submitted.found, checked_receipt(local, view.id))

    @property
    def receipts(self) -> list[CheckedReceipt]:
        """The receipts of all requests that were carried out; their signatures were checked.

        Raises:
            ConfigError: the run is not a vertical run.
            IntegrityError: a receipt is not valid.
            StorageError: the run has not begun, or a receipt cannot be read.
        """
        with self._desk(self._vertical().active) as local:
            done = [each for each in local.desk.requests() if each.state in CARRIED_OUT]
            first = {min(each.batch): each.id for each in done}  # one receipt for each batch
            return [checked_receipt(local, each) for each in first.values()]

    def _repr_html_(self) -> str:
        """Return a summary for a notebook."""
        record = self.metrics
        facts = {
            "common rows": record.run.common_rows,
            "test accuracy": record.run.test_accuracy,
            "test R²": record.model and record.model.r2,
            "seconds": record.run.seconds,
            "requests in the run": len(record.requests) or None,
            "report": self.report(),
        }
        return f"<p>{html.escape(run_sentence(record))}</p>{_html_table(facts)}"

    def _simulate(self, *, processes: bool) -> None:
        """Run all parties."""
        from parties.vertical.in_process import run_in_process

        vertical = isinstance(self._config.agreement, VerticalAgreement)
        with self._listener() as listener:
            if vertical and not processes:
                run_in_process(self._plan, listener)
            else:
                simulate_parties(self._plan, listener)

    def _vertical(self) -> VerticalAgreement:
        agreement = self._config.agreement
        if isinstance(agreement, VerticalAgreement):
            return agreement
        raise ConfigError(
            f"{self._plan.config} is the agreement of a {agreement.mode} run, but predict, unlearn "
            "and receipts are for vertical runs",
            "use the commands vfl predict and vfl unlearn, which are for all modes",
        )

    def _written(self, name: str) -> Path:
        path = self.folder / name
        if path.exists():
            return path
        raise StorageError(
            f"{path} does not exist, so the run has not ended", "run it with vfl.simulate"
        )

    @contextmanager
    def _desk(self, party: str, *, reads_data: bool = False) -> Iterator["VerticalDesk"]:
        """Open the requests of one party."""
        with trial_certificates(self._plan) as (_, changes, keys):
            plan = self._plan
            place = Place(plan.config, party, plan.out, keys, None, [*changes], plan.data)
            with vertical_desk(place, reads_data=reads_data) as local:
                yield local

    @contextmanager
    def _listener(self) -> Iterator["ProgressListener"]:
        """Print progress, unless the run was started without it."""
        roles = {name: each.role for name, each in self._config.agreement.parties.items()}
        console = Console("vfl", json_lines=False, debug=False)
        shown = console.progress(roles) if self._progress else nullcontext(lambda _: None)
        with shown as listener:
            yield listener


def predictions_of(run: Run, ids: Sequence[str] | None, data: str | Path | None) -> Predictions:
    """Predict rows with the kept model of every party; the arguments are as in ``Run.predict``.

    Raises:
        ConfigError: the run is not a vertical run.
        DataError: an ID has another form, or the active party has none of the rows.
        PolicyError: no row is common to all parties.
        StorageError: no model is kept.
    """
    from parties.vertical.in_process import predict_in_process

    run._vertical()
    plan = run._plan
    if data is not None:
        plan = plan_simulation(plan.config, plan.changes, plan.out, Path(data), keys=plan.keys)
    with run._listener() as listener:
        return predict_in_process(plan, ids, listener)


def keep_with(run: Run, modules: Mapping[str, object]) -> None:
    """Keep own networks, by party, as long as a run: the parties build their models from them."""
    run._modules = modules


def _changes(changes: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield changed settings in the form of ``--set``."""
    for name, value in changes.items():
        key = f"{prefix}{name}"
        if value is None:
            raise ConfigError(f"{key} is None, but a setting has a value", f"omit {key}")
        if isinstance(value, Mapping):
            yield from _changes(value, f"{key}.")
        else:
            yield f"{key}={inline_toml(_plain(value))}"


def _plain(value: Any) -> Any:
    """Return a value of Python, NumPy or pathlib as a value of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def _config_file(config: Mapping[str, Any], out: Path) -> Path:
    """Write a config that was given as a dictionary; return the file.

    Raises:
        ConfigError: the config has no name of a federation.
    """
    federation = config.get("federation")
    if not isinstance(federation, str):
        raise ConfigError("the config has no key 'federation'", 'add {"federation": "NAME"}')
    content = _plain(config)
    for settings in content.get("settings", {}).values():
        settings.setdefault("folder", str(Path.cwd()))
    make_folder(out)
    path = out / f"{federation}.toml"
    lines = [f"{inline_toml({key: each})[1:-1]}\n" for key, each in content.items()]
    write_atomically(path, "".join(lines).encode())
    return path


def _frame(predictions: Predictions) -> pd.DataFrame:
    """Return predictions as a data frame, [ids, 2 + classes], or [ids, 1 + outputs] of no class."""
    held = predictions.held
    columns: dict[str, Any] = {"status": np.where(held, PREDICTED, NOT_HELD)}
    if predictions.task == "classification":
        names = np.array(predictions.classes, object)
        best = names[np.nan_to_num(predictions.probabilities).argmax(axis=1)]
        columns["class"] = np.where(held, best, None)
    columns |= {
        name: predictions.probabilities[:, at] for at, name in enumerate(predictions.columns)
    }
    return pd.DataFrame(columns, index=pd.Index(predictions.texts, name="id"))


def _html_table(facts: Mapping[str, object]) -> str:
    """Return facts as an HTML table; a fact that is None is left out."""
    rows = []
    for name, value in facts.items():
        if value is None:
            continue
        text = f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))
        if isinstance(value, Path):
            text = f'<a href="{html.escape(value.as_posix(), quote=True)}">{text}</a>'
        rows.append(f"<tr><th>{html.escape(name)}</th><td>{text}</td></tr>")
    return f"<table>{''.join(rows)}</table>"
