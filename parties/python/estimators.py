"""Estimators of scikit-learn that train a split model on the data frames of several parties."""

import shutil
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal, Self, SupportsFloat

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from configs.errors import ConfigError
from parties.common.errors import DataError, StorageError
from parties.common.shared_randomness import derive_key, id_fractions
from parties.python.frames import (
    LABEL,
    ROW_ID,
    WEIGHT,
    Features,
    by_party,
    categorical_columns,
    id_texts,
    ids_of_labels,
    labels_in_order,
    named_frame,
    refuse_uncertain_ids,
    weights_in_order,
    without_ids,
    write_frames,
)
from parties.python.own_networks import OwnNetwork, own_network
from parties.python.runs import Forgotten, keep_with, predictions_of, simulate
from psi.ids import normalise

_EVENLY = ("first", "second")  # parties of features whose columns have no parties
_TOP = ""  # in place of the name of a party
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
                party, or if the active party has labels alone, and so is a data frame with one
                column; a series without any of the IDs, and other labels, are in the order of the
                active party's rows.
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
        if not by_party(X) and active in frames:  # in the order of the rows, as in scikit-learn
            y, sample_weight = map(without_ids, (y, sample_weight))
        own = frames[active] if active in frames else pd.DataFrame(index=ids_of_labels(y))
        settings, columns = self._active_columns(y, sample_weight, own.index)
        self._kinds = {name: categorical_columns(name, frame) for name, frame in frames.items()}
        self._modules = self._own_modules()
        tables = {**frames, active: own.assign(**columns)}
        rows = [each for each in own.index if all(each in frame.index for frame in frames.values())]
        base = self._new_folder()
        try:
            write_frames(tables, self._kinds, base / "data")
            self.run_ = simulate(
                self._config(frames, active, settings, tables[active].loc[rows, [*columns]]),
                out=base / "runs", data=base / "data", progress=self.progress,
                processes=self.processes, **(self.changes or {}),
            )  # fmt: skip
        except BaseException:
            if self.folder is None:
                shutil.rmtree(base, ignore_errors=True)
            raise
        keep_with(self.run_, self._modules)
        if self.folder is None:
            weakref.finalize(self.run_, shutil.rmtree, base, ignore_errors=True)
        return self

    def _active_columns(
        self, y: Any, sample_weight: Any, ids: pd.Index
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings of the labels, and the labels and weights [rows] by column."""
        settings, written = self._targets(labels_in_order(y, ids))
        columns = {LABEL: written}
        if sample_weight is not None:
            columns[WEIGHT] = weights_in_order(sample_weight, ids)
        return settings, columns

    def _values(self, X: Features) -> NDArray[np.float64]:  # noqa: N803
        """Return what the model computes for each row of ``X``, [rows, classes] or [rows, 1].

        Raises:
            DataError: a party lacks a row or a column, or there is no row.
            NotFittedError: ``fit`` was not called.
        """
        check_is_fitted(self)
        frames, _ = self._frames(X, fits=False)
        if lacking := [name for name, kinds in self._kinds.items() if kinds and name not in frames]:
            raise DataError(
                f"the features of {', '.join(lacking)} are not given",
                "give one data frame per party, as in fit",
            )
        # Other IDs than those of ``fit``: a row with the number of a forgotten one is another row.
        renamed = {name: each.rename(index=_predicted) for name, each in frames.items()}
        wanted = renamed.get(self._active(X), next(iter(renamed.values()))).index
        if not len(wanted):
            raise DataError("the features have no row", "give one row or more")
        with TemporaryDirectory(prefix="vfl-") as folder:
            write_frames(renamed, self._kinds, Path(folder))
            found = predictions_of(self.run_, [*wanted], folder)
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
        if by_party(X):
            frames, _ = self._frames(X, fits=False)
            rows = frames.get(self._active(X), next(iter(frames.values()))).index
            y = labels_in_order(y, rows)
            if sample_weight is not None:
                sample_weight = weights_in_order(sample_weight, rows)
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
        return self.run_.unlearn(id_texts(ids))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn must know: absent values are allowed."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the mixin
        tags.input_tags.allow_nan = True
        return tags

    def _active(self, X: Features) -> str:  # noqa: N803
        """The name of the party with the labels."""
        named = X if by_party(X) else self.parties or _EVENLY
        return self.active or str(next(iter(named)))

    def _frames(
        self,
        X: Features,  # noqa: N803
        y: Any = None,
        *,
        fits: bool,
    ) -> tuple[dict[str, pd.DataFrame], Any]:
        """Return the features of each party, with texts as names and IDs, and ``y``."""
        if by_party(X):
            frames = {name: named_frame(name, frame) for name, frame in X.items()}
            for name, frame in X.items():  # their IDs are matched
                refuse_uncertain_ids(f"the data frame of {name}", frame.index)
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
        return {name: named_frame(name, table[part]) for name, part in parts.items()}, y

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
        y, weighted = table[LABEL], WEIGHT in table
        count, share = len(y), self.held_out
        used = y[table[WEIGHT] > 0] if weighted else y
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
            "id": {"columns": [ROW_ID]},
            "numeric": [column for column, text in kinds.items() if not text],
            "categorical": [column for column, text in kinds.items() if text],
            "label": LABEL if name == active else None,
            "weight": WEIGHT if name == active and weighted else None,
        }
        own, top = self._modules.get(name), self._modules.get(_TOP) if name == active else None
        return {
            "data": data,
            "module": None if own is None else own.path,
            "top_module": None if top is None else top.path,
        }

    def _own_modules(self) -> dict[str, OwnNetwork]:
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
            found[name] = own_network(f"the bottom model of {name}", own, processes=self.processes)
        if self.top is not None:
            found[_TOP] = own_network("the top model", self.top, processes=self.processes)
        return found


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
