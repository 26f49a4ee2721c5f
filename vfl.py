"""The Python interface of vfl: run a federation on this machine, predict, and forget rows.

``simulate`` runs all parties of a config, as the command ``vfl simulate`` does, and returns a
``Run``. ``SplitClassifier`` and ``SplitRegressor`` are scikit-learn estimators that train a split
model on data frames of several parties. All of them run the programs that the parties run in
production; in the vertical mode all parties are threads of this process.
"""

import html
import json
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsFloat, TypeAlias, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

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
from parties.common.errors import DataError, PolicyError, StorageError
from parties.common.shared_randomness import derive_key, id_fractions
from parties.data.predictions import NOT_HELD, PREDICTED, Predictions
from parties.report import METRICS, REPORT
from parties.report.record import RunRecord, read_record
from parties.report.sentences import run_sentence
from parties.requests.lifecycle import CARRIED_OUT, RequestState
from parties.session.simulation import trial_certificates
from parties.vertical.engine.networks import give_module, module_source_digest
from parties.web.kept_model_queue import prediction_door
from psi.ids import normalise
from unlearning.receipts.receipt import LegalBasis

if TYPE_CHECKING:
    from parties.common.progress import ProgressListener
    from parties.session.simulation import SimulationPlan
    from parties.vertical.offline.local_desk import VerticalDesk

__all__ = ["CheckedReceipt", "Forgotten", "Run", "SplitClassifier", "SplitRegressor", "simulate"]

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
        return _frame(self._predictions(None if ids is None else _texts(ids), data))

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
            ids=None, identities=tuple(_texts(ids)), label=None, fraction="1", seed=0,
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

    def _predictions(self, ids: Sequence[str] | None, data: str | Path | None) -> Predictions:
        from parties.vertical.in_process import predict_in_process

        self._vertical()
        plan = self._plan
        if data is not None:
            plan = plan_simulation(plan.config, plan.changes, plan.out, Path(data), keys=plan.keys)
        with self._listener() as listener:
            return predict_in_process(plan, ids, listener)

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


Features: TypeAlias = Mapping[str, pd.DataFrame] | pd.DataFrame | NDArray[Any]
_EVENLY = ("first", "second")  # parties of features whose columns have no parties
_TOP = ""  # in place of the name of a party
_ID, _LABEL, _WEIGHT = "vfl_row_id", "vfl_label", "vfl_weight"
_STEPS = 400  # steps of a training with the default number of epochs


class _SplitEstimator:
    """What the estimators of split models share; a subclass handles its kind of labels."""

    def __init__(  # noqa: PLR0913  the settings of an estimator are arguments
        self,
        parties: Mapping[str, Sequence[Any]] | None = None,
        *,
        active: str | None = None,
        width: int = 16,
        hidden: Sequence[int] = (32,),
        bottoms: Mapping[str, nn.Module | type[nn.Module]] | None = None,
        top: nn.Module | type[nn.Module] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        held_out: float = 0.1,
        method: str = "retrain-paired",
        changes: Mapping[str, Any] | None = None,
        folder: str | Path | None = None,
        progress: bool = False,
        processes: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.parties, self.active, self.width, self.hidden = parties, active, width, hidden
        self.bottoms, self.top, self.epochs, self.batch_size = bottoms, top, epochs, batch_size
        self.learning_rate, self.held_out, self.method = learning_rate, held_out, method
        self.changes, self.folder, self.progress = changes, folder, progress
        self.processes, self.random_state = processes, random_state

    def _targets(self, labels: NDArray[Any]) -> tuple[dict[str, Any], NDArray[Any]]:
        """Check the labels [rows] of the active party.

        Returns:
            The settings of the labels in the agreement, and the labels [rows] as they are written.

        Raises:
            ValueError: the labels are of another kind.
        """
        raise NotImplementedError

    def fit(self, X: Features, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803  of scikit-learn
        """Train the model, and keep it at every party.

        Args:
            X: the features: one data frame [rows, columns] per party, by its name; or one data
                frame or array [rows, columns] of all parties. The index of a data frame has the
                IDs; the IDs of an array are row numbers. Columns that are not numbers are
                categorical; absent values are allowed.
            y: the labels [rows]. A series is matched by ID if the features are one data frame per
                party, or if the active party has labels alone; a series without any of the IDs, and
                other labels, are in the order of the active party's rows.
            sample_weight: the weights of the rows in the loss, [rows], which the active party has;
                None: all rows count the same. They are as ``y``: a series is matched by ID.

        Raises:
            DataError: an ID occurs twice, a column has an unsuitable type, a series has some of the
                IDs only, or the number of labels is not that of the rows.
            ConfigError: a setting is not valid.
            PolicyError: no row is common to all parties.
            StorageError: the folder has the run of an earlier ``fit``.
            ValueError: a label is absent or of another kind, a weight is negative or no number, all
                weights are 0, or the features are no table.
        """
        frames, y = self._frames(X, y, fits=True)
        active = self._active(X)
        if not _by_party(X) and active in frames:  # in the order of the rows, as in scikit-learn
            y, sample_weight = map(_without_ids, (y, sample_weight))
        own = frames.get(active, pd.DataFrame(index=_ids(y) if active not in frames else None))
        settings, columns = self._active_columns(y, sample_weight, own.index)
        self._kinds = {name: _categorical(name, frame) for name, frame in frames.items()}
        self._modules = self._own_modules()
        tables = {**frames, active: own.assign(**columns)}
        rows = [each for each in own.index if all(each in frame.index for frame in frames.values())]
        base = self._new_folder()
        try:
            _write_tables(tables, self._kinds, base / "data")
            self.run_ = simulate(
                self._config(frames, active, settings, tables[active].loc[rows, [*columns]]),
                out=base / "runs", data=base / "data", progress=self.progress,
                processes=self.processes, **(self.changes or {}),
            )  # fmt: skip
        except BaseException:
            if self.folder is None:
                shutil.rmtree(base, ignore_errors=True)
            raise
        self.run_._modules = self._modules
        if self.folder is None:
            weakref.finalize(self.run_, shutil.rmtree, base, ignore_errors=True)
        return self

    def _active_columns(
        self, y: Any, sample_weight: Any, ids: pd.Index
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings of the labels, and the labels and weights [rows] by column."""
        settings, written = self._targets(_labels(y, ids))
        columns = {_LABEL: written}
        if sample_weight is not None:
            columns[_WEIGHT] = _weights(sample_weight, ids)
        return settings, columns

    def _values(self, X: Features) -> NDArray[np.float64]:  # noqa: N803
        """Return what the model computes for each row of ``X``, [rows, classes] or [rows, 1].

        Raises:
            DataError: a party lacks a row or a column, or there is no row.
            NotFittedError: ``fit`` was not called.
        """
        check_is_fitted(self)
        frames, _ = self._frames(X, fits=False)
        # Other IDs than those of ``fit``: a row with the number of a forgotten one is another row.
        renamed = {name: each.rename(index=_predicted) for name, each in frames.items()}
        wanted = renamed.get(self._active(X), next(iter(renamed.values()))).index
        if not len(wanted):
            raise DataError("the features have no row", "give one row or more")
        with TemporaryDirectory(prefix="vfl-") as folder:
            _write_tables(renamed, self._kinds, Path(folder))
            found = self.run_._predictions([*wanted], folder)
        if missing := int((~found.held).sum()):
            raise DataError(
                f"{missing} of {len(wanted)} rows are not held by every party",
                "predict rows that every party has",
            )
        return found.probabilities

    def score(self, X: Features, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy, or R² of numbers, for rows ``X`` with the labels ``y``, [rows].

        ``X`` and ``y`` are as in ``fit``. ``sample_weight`` are the weights of the rows, [rows];
        None: all rows count the same.

        Raises:
            DataError: a party lacks a row or a column.
            ValueError: a row has no label.
            NotFittedError: ``fit`` was not called.
        """
        if _by_party(X):
            frames, _ = self._frames(X, fits=False)
            rows = frames.get(self._active(X), next(iter(frames.values()))).index
            y = _labels(y, rows)
            if sample_weight is not None:
                sample_weight = _weights(sample_weight, rows)
        score: float = super().score(X, y, sample_weight)  # type: ignore[misc]  # of the mixin
        return score

    def unlearn(self, ids: Sequence[Any]) -> Forgotten:
        """Let all parties forget rows; later predictions use the model without the rows.

        Args:
            ids: the IDs of rows of ``fit``: entries of the index of a data frame, or row numbers of
                an array.

        Returns:
            The result, with the receipt that all parties have signed.

        Raises:
            DataError: ``ids`` is one text or empty.
            PolicyError: the new model lost too much accuracy and is not used.
            NotFittedError: ``fit`` was not called.
        """
        check_is_fitted(self)
        return self.run_.unlearn(_texts(ids))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn must know: absent values are allowed."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the mixin
        tags.input_tags.allow_nan = True
        return tags

    def _active(self, X: Features) -> str:  # noqa: N803
        """The name of the party with the labels."""
        named = X if _by_party(X) else self.parties or _EVENLY
        return self.active or str(next(iter(named)))

    def _frames(
        self,
        X: Features,  # noqa: N803
        y: Any = None,
        *,
        fits: bool,
    ) -> tuple[dict[str, pd.DataFrame], Any]:
        """Return the features of each party, with texts as names and IDs, and ``y``."""
        if _by_party(X):
            frames = {name: _named(name, frame) for name, frame in X.items()}
            if fits:
                self.n_features_in_ = sum(frame.shape[1] for frame in frames.values())
            return frames, y
        labels = {"y": y} if fits else {}
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, **labels, reset=fits, skip_check_array=True)
            table, columns = X, [*X.columns]
        else:
            checked = validate_data(self, X, **labels, reset=fits, ensure_all_finite="allow-nan")
            values, y = checked if fits else (checked, y)
            columns = [f"x{number}" for number in range(values.shape[1])]
            table = pd.DataFrame(values, columns=columns)
        middle = len(columns) // 2
        evenly = dict(zip(_EVENLY, (columns[:middle], columns[middle:]), strict=True))
        parts = {name: [*chosen] for name, chosen in (self.parties or evenly).items()}
        if absent := [str(each) for part in parts.values() for each in part if each not in columns]:
            raise DataError(
                f"the features have no column {', '.join(map(repr, absent[:20]))}",
                "compare the argument parties with the columns of the data frame",
            )
        return {name: _named(name, table[part]) for name, part in parts.items()}, y

    def _new_folder(self) -> Path:
        """Return the folder for the files of a new run."""
        if self.folder is None:
            return Path(mkdtemp(prefix="vfl-"))
        if (Path(self.folder) / "runs").exists():
            raise StorageError(
                f"{self.folder} has the run of an earlier fit", "name another folder, or remove it"
            )
        return Path(self.folder)

    def _config(
        self,
        frames: Mapping[str, pd.DataFrame],
        active: str,
        labels: Mapping[str, Any],
        table: pd.DataFrame,
    ) -> dict[str, Any]:
        """Return the config of the run.

        ``labels`` are the settings of the labels. ``table``, [rows, columns], has the labels of the
        common rows, and their weights if they have weights.
        """
        y, weighted = table[_LABEL], _WEIGHT in table
        count, share = len(y), self.held_out
        used = y[table[_WEIGHT] > 0] if weighted else y
        batch = self.batch_size or int(np.clip(count // 10, 1, 128))
        epochs = self.epochs or int(np.clip(_STEPS * batch // max(count, 1), 5, 100))
        first = int(check_random_state(self.random_state).randint(2**31 - 1))
        names, top = dict.fromkeys([active, *frames]), self._modules.get(_TOP)
        return {
            "federation": "split-classifier" if is_classifier(self) else "split-regressor",
            "seed": _seed(first, share, used if is_classifier(self) else used * 0),
            "labels": labels,
            "parties": {name: self._party(name, active, self._kinds.get(name)) for name in names},
            "psi": {"minimum": 1},
            "top": {"kind": "module", "source": top.digest} if top else None,
            "split": {"validation": share, "test": share},
            "training": {
                "learning_rate": self.learning_rate, "batch": batch, "epochs": epochs,
                "patience": epochs,  # all epochs are trained, and the best one is kept
                "sample_weights": weighted,
            },
            "unlearning": {"method": self.method, "compare": [], "retrains": 0},
            # Three of a few validation rows may be wrong by chance.
            "requests": {"guard": min(1.0, 0.05 + 3 / max(1.0, share * count))},
            "settings": {name: self._settings(name, active, weighted=weighted) for name in names},
        }  # fmt: skip

    def _party(self, name: str, active: str, columns: Mapping[str, bool] | None) -> dict[str, Any]:
        """Return a party's entry in the agreement."""
        entry: dict[str, Any] = {"role": "active" if name == active else "passive"}
        if columns:
            entry |= {"width": self.width, "bottom": {"kind": "mlp", "hidden": [*self.hidden]}}
        if own := self._modules.get(name):
            entry["bottom"] = {"kind": "module", "source": own.digest}
        return entry

    def _settings(self, name: str, active: str, *, weighted: bool) -> dict[str, Any]:
        """Return the settings of a party."""
        kinds = self._kinds.get(name, {})
        data = {
            "kind": "parquet",
            "path": f"{name}.parquet",
            "id": {"columns": [_ID]},
            "numeric": [column for column, text in kinds.items() if not text],
            "categorical": [column for column, text in kinds.items() if text],
            "label": _LABEL if name == active else None,
            "weight": _WEIGHT if name == active and weighted else None,
        }
        own, top = self._modules.get(name), self._modules.get(_TOP) if name == active else None
        return {
            "data": data,
            "module": None if own is None else own.path,
            "top_module": None if top is None else top.path,
        }

    def _own_modules(self) -> dict[str, "_OwnModule"]:
        """Return the own networks of the parties, by party.

        Raises:
            ConfigError: a network is not suitable, or its party has no columns.
        """
        found = {}
        for name, own in (self.bottoms or {}).items():
            if not self._kinds.get(name):
                raise ConfigError(
                    f"bottoms has a network for {name!r}, which is no party with columns",
                    f"the parties with columns are {', '.join(map(repr, self._kinds))}",
                )
            found[name] = self._own_module(f"the bottom model of {name}", own)
        if self.top is not None:
            found[_TOP] = self._own_module("the top model", self.top)
        return found

    def _own_module(self, name: str, own: nn.Module | type[nn.Module]) -> "_OwnModule":
        """Return an own network, an object or a class, as the parties find it."""
        if isinstance(own, nn.Module):
            if self.processes:
                raise ConfigError(
                    f"{name} is an object, whose code cannot be sent to another process safely",
                    "give its class, which every process imports from its source file, or fit with "
                    "processes=False",
                )
            digest, given = give_module(name, own)
            return _OwnModule(digest, None, given)
        if not (isinstance(own, type) and issubclass(own, nn.Module)):
            raise ConfigError(
                f"{name} is no torch.nn.Module, but of the type {type(own).__name__}",
                "give an object or a subclass of torch.nn.Module",
            )
        try:
            digest = module_source_digest(own)
        except (OSError, TypeError) as error:
            raise ConfigError(
                f"{own.__qualname__} has no source file",
                "define the class in a file, and import it from there; or give an object of the "
                "class",
            ) from error
        return _OwnModule(digest, f"{own.__module__}:{own.__qualname__}", None)


class SplitClassifier(_SplitEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that several parties train together, each with its own columns.

    Each party turns its columns into an embedding with a network of its own, and the active party,
    which has the labels, computes classes from all embeddings. ``fit`` runs the programs of all
    parties in this process; only their messages connect them. The files of the run (data, report,
    models, receipts) are in a folder of their own.

    The rows of the parties are matched by ID, which is the index of a data frame; only rows that
    all parties have are used. A part of the rows is held out to choose the best epoch, and another
    part for the figures of the report, so ``fit`` does not train with every row.

    Args:
        parties: the columns of each party, by its name, for features in one data frame; None:
            the columns are divided evenly into two parties, ``first`` and ``second``. Not used for
            features in one data frame per party.
        active: the party with the labels; None: the first party. A name that no other party has is
            a party with labels alone.
        width: number of elements of a party's embedding.
        hidden: widths of the hidden layers of a party's network.
        bottoms: by party, an own network in place of the fully connected one: a
            ``torch.nn.Module`` that turns rows [batch, inputs] into embeddings [batch, width]. A
            categorical column is several inputs. An object is copied with its weights, from which
            every training begins, so its weights must know nothing of the rows. A class, whose
            arguments are the shape of a row and the width, has weights of ``random_state``; it
            needs a source file, from which it is imported.
        top: an own network of the active party, as in ``bottoms``: it turns the embeddings of all
            parties, [batch, parties times width], into logits [batch, classes], or into the
            standardised number [batch, 1].
        epochs: number of passes over the rows; None: as many as make about 400 steps, from 5 to
            100.
        batch_size: rows of a batch; None: a tenth of the rows, from 1 to 128.
        learning_rate: learning rate of Adam.
        held_out: share of the rows for choosing the best epoch, and share of the rows for the
            figures of the report.
        method: the method by which ``unlearn`` forgets rows. The default is exact: a new training
            without the rows.
        changes: further settings of the agreement, such as ``{"top": {"hidden": [64]}}``.
        folder: folder for the files of the run; None: a temporary folder, which is removed with the
            estimator's run.
        progress: whether to print the phases of a run.
        processes: whether ``fit`` runs every party as a process of its own, as ``simulate`` does;
            a script then needs ``if __name__ == "__main__":``. Own networks are then classes: the
            code of an object cannot be sent to another process safely.
        random_state: seed of the weights, of the order of the rows, and of the rows held out.

    Attributes:
        classes_: the classes [classes], sorted.
        n_features_in_: number of columns of all parties.
        run_: the run of the last ``fit``, with its report, metrics and receipts.
    """

    classes_: NDArray[Any]

    def predict_proba(self, X: Features) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class, [rows, classes].

        Args:
            X: the features, as in ``fit``. The rows of the parties are matched by ID, and the
                result has the order of the active party's rows, or of the first party's if the
                active party has labels alone.

        Raises:
            DataError: a party lacks a row or a column.
            NotFittedError: ``fit`` was not called.
        """
        return self._values(X)

    def predict(self, X: Features) -> NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row, [rows]; ``X`` as in ``predict_proba``.

        Raises:
            DataError: a party lacks a row or a column.
            NotFittedError: ``fit`` was not called.
        """
        best = self.predict_proba(X).argmax(axis=1)
        classes: NDArray[Any] = self.classes_[best]
        return classes

    def _targets(self, labels: NDArray[Any]) -> tuple[dict[str, Any], NDArray[Any]]:
        """Return the settings of the classes, and the name of the class of each row, [rows].

        Raises:
            ValueError: the labels [rows] are numbers that are no classes, or of one class only.
        """
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError("y has 1 class, but a classifier needs at least two classes")
        names = _class_names(self.classes_)
        named = np.array(names, object)[np.searchsorted(self.classes_, labels)]
        return {"classes": names}, named


class SplitRegressor(_SplitEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regression that several parties train together, each with its own columns.

    The label of a row is a number, which ``predict`` returns in its own unit. Everything else,
    and the arguments except ``loss``, are as in ``SplitClassifier``; the default of
    ``learning_rate`` is smaller.

    Args:
        loss: the loss that is minimised: ``"squared"`` or ``"absolute"`` error.

    Attributes:
        n_features_in_: number of columns of all parties.
        run_: the run of the last ``fit``, with its report, metrics and receipts.
    """

    def __init__(  # noqa: PLR0913  the settings of an estimator are arguments
        self,
        parties: Mapping[str, Sequence[Any]] | None = None,
        *,
        loss: Literal["squared", "absolute"] = "squared",
        active: str | None = None,
        width: int = 16,
        hidden: Sequence[int] = (32,),
        bottoms: Mapping[str, nn.Module | type[nn.Module]] | None = None,
        top: nn.Module | type[nn.Module] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 0.003,
        held_out: float = 0.1,
        method: str = "retrain-paired",
        changes: Mapping[str, Any] | None = None,
        folder: str | Path | None = None,
        progress: bool = False,
        processes: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            parties, active=active, width=width, hidden=hidden, bottoms=bottoms, top=top,
            epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, held_out=held_out,
            method=method, changes=changes, folder=folder, progress=progress,
            processes=processes, random_state=random_state,
        )  # fmt: skip
        self.loss = loss

    def predict(self, X: Features) -> NDArray[np.float64]:  # noqa: N803
        """Return the number of each row, [rows].

        Args:
            X: the features, as in ``fit``. The rows of the parties are matched by ID, and the
                result has the order of the active party's rows, or of the first party's if the
                active party has labels alone.

        Raises:
            DataError: a party lacks a row or a column.
            NotFittedError: ``fit`` was not called.
        """
        return self._values(X)[:, 0]

    def _targets(self, labels: NDArray[Any]) -> tuple[dict[str, Any], NDArray[Any]]:
        """Return the settings of a regression, and the number of each row, [rows].

        Raises:
            ValueError: the labels [rows] are no real numbers, or there is one label only.
        """
        if len(labels) == 1:
            raise ValueError("y has 1 sample, but a regression needs at least two")
        texts = [each for each in labels.tolist() if not isinstance(each, SupportsFloat)]
        if texts or labels.dtype.kind not in "biufO":
            kind = type(texts[0]).__name__ if texts else str(labels.dtype)
            raise ValueError(
                f"y has labels of the type {kind}, but a regression predicts numbers: convert the "
                "labels to numbers, or use SplitClassifier for classes"
            )
        return {"task": "regression", "loss": self.loss}, labels.astype(float)


def _by_party(features: Features) -> TypeGuard[Mapping[str, pd.DataFrame]]:
    """Return whether the features [rows, columns] are one table per party."""
    return isinstance(features, Mapping) and not issparse(features)  # some sparse arrays are dicts


def _named(party: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame [rows, columns] with texts as names of columns and as IDs."""
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"the features of {party} are no data frame, but of the type {type(frame).__name__}",
            "give a pandas data frame whose index has the IDs",
        )
    found = frame.set_axis(frame.columns.map(str), axis=1).set_axis(frame.index.map(str), axis=0)
    for kind, index in (("ID", found.index), ("column", found.columns)):
        if repeated := int(index.duplicated().sum()):
            raise DataError(
                f"the data frame of {party} has {repeated} repeated {kind}s",
                "the index has one ID for each row, and the columns have different names",
            )
    return found


def _categorical(party: str, frame: pd.DataFrame) -> dict[str, bool]:
    """Return for each column of a data frame [rows, columns] whether it is categorical."""
    for column, kind in frame.dtypes.items():
        if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
            raise DataError(
                f"the column {column!r} of {party} has the type {kind}",
                "convert it to a number, such as the days since a date",
            )
    return {
        str(column): not pd.api.types.is_numeric_dtype(kind)
        for column, kind in frame.dtypes.items()
    }


def _write_tables(
    frames: Mapping[str, pd.DataFrame], kinds: Mapping[str, Mapping[str, bool]], folder: Path
) -> None:
    """Write the data frame [rows, columns] of each party to a file."""
    make_folder(folder)
    for name, frame in frames.items():
        columns = {_ID: pd.Series(frame.index, dtype=object)}
        for column, text in kinds.get(name, {}).items():
            if column not in frame:
                raise DataError(
                    f"the data frame of {name} has no column {column!r}",
                    "predict rows with the columns of fit",
                )
            values = frame[column].reset_index(drop=True)
            texts = values.astype(object).where(values.notna(), None)
            columns[column] = (
                texts.map(str, na_action="ignore") if text else _numbers(name, column, values)
            )
        for column in (_LABEL, _WEIGHT):
            if column in frame:
                columns[column] = frame[column].reset_index(drop=True)
        pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet", index=False)


def _numbers(party: str, column: str, values: pd.Series) -> pd.Series:
    """Return a column [rows] as numbers; the error names no value."""
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        pass
    raise DataError(
        f"the column {column!r} of {party} has a text, but it had only numbers in fit",
        "give numbers, or fit again with the column as texts",
    )


def _texts(ids: Iterable[Any]) -> list[str]:
    """Return IDs as texts.

    Raises:
        DataError: ``ids`` is one text, whose characters would be taken for IDs, or empty.
    """
    if isinstance(ids, str | bytes):
        raise DataError("the IDs are one text", "give a list of IDs, also for one ID: [ID]")
    texts = [*map(str, ids)]
    if not texts:
        raise DataError("the list of IDs is empty", "give one ID or more")
    return texts


def _ids(y: Any) -> pd.Index:
    """Return the IDs of labels that a party without columns has."""
    if isinstance(y, pd.Series):
        return y.index.map(str)
    raise DataError(
        "the active party has labels alone, but the labels have no IDs",
        "give the labels as a pandas series whose index has the IDs",
    )


def _labels(y: Any, ids: pd.Index) -> NDArray[Any]:
    """Return the labels [rows] of rows with these IDs."""
    labels: NDArray[Any] = column_or_1d(_in_order(y, ids), warn=True)
    if len(labels) != len(ids):
        raise DataError(
            f"there are {len(labels)} labels for {len(ids)} rows", "give one label for each row"
        )
    absent = pd.isna(labels) | np.isin(labels, [np.inf, -np.inf])
    if absent.any():
        raise ValueError(
            f"y has no finite value for {absent.sum()} of {len(ids)} rows, the first of which is "
            f"number {int(absent.argmax())} of y, counted from 0: remove these rows"
        )
    return labels


def _weights(sample_weight: Any, ids: pd.Index) -> NDArray[np.float64]:
    """Return the weights [rows] of rows with these IDs."""
    found: NDArray[np.float64] = _check_sample_weight(
        _in_order(sample_weight, ids), ids, dtype=np.float64, ensure_non_negative=True
    )
    return found


def _without_ids(values: Any) -> Any:
    """Return values [rows] without the IDs that a series has."""
    return values.to_numpy() if isinstance(values, pd.Series) else values


def _in_order(values: Any, ids: pd.Index) -> Any:
    """Return values [rows] in the order of these IDs; only a series has IDs.

    Raises:
        DataError: a series has some of the IDs, but not all.
    """
    if not isinstance(values, pd.Series):
        return values
    known = values.set_axis(values.index.map(str))
    lacking = len(set(ids) - set(known.index))
    if 0 < lacking < len(ids):
        raise DataError(
            f"a series has no value for {lacking} of {len(ids)} rows",
            "its index needs the IDs of all rows of the active party",
        )
    return values if lacking else known.loc[ids]


def _class_names(classes: NDArray[Any]) -> list[str]:
    """Return a name for each of the classes [classes]: its text, or else its number."""
    names = [str(each) for each in classes.tolist()]
    usable = all(name and name == name.strip() and name.upper() != "NULL" for name in names)
    return names if usable and len({*names}) == len(names) else [*map(str, range(len(names)))]


def _seed(first: int, share: float, y: pd.Series) -> int:
    """Return the first seed, from ``first`` on, that leaves a row for every use.

    The seed decides which of the common rows, with the labels ``y`` [rows], are held out. With few
    rows, no row may be held out, or all rows of a class.

    Raises:
        DataError: no seed was found.
    """
    ids = [normalise(each) for each in y.index]
    for seed in range(first, first + 1000):
        draw = id_fractions(derive_key(seed, "split"), ids)
        test, learned = draw < share, draw >= 2 * share
        held_out = test.any() and (~test & ~learned).any()
        if held_out and y[learned].nunique() == y.nunique():
            return seed
    raise DataError(
        f"{len(ids)} common rows are too few for a model: it needs training rows, of each class if "
        "there are classes, and other rows that are held out",
        "give more rows that all parties have",
    )


def _predicted(identity: str) -> str:
    return f"predicted-{identity}"


@dataclass(frozen=True, slots=True)
class _OwnModule:
    """An own network, as the parties find it."""

    digest: str  # for the agreement
    path: str | None  # import path of a class; None for an object
    given: nn.Module | None  # the copy of an object, which must exist while parties build it
