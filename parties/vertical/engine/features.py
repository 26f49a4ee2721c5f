"""One party's features of the common rows: preprocessing, and the trigger of a backdoor audit."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.evaluation import BackdoorSettings
from parties.common.errors import DataError, PolicyError
from parties.common.shared_randomness import Index, Words, derive_key, random_id_words
from parties.data import preprocess
from parties.data.data_frame import data_frame
from parties.data.holding import Holding
from parties.data.preprocess import FittedPreprocessing, read_statistics
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.rows import RowSets, split_rows
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """The features of all common rows, and the preprocessing that computed these features."""

    values: Tensor  # the features, [common_rows, ...]; the features of erased rows are 0
    fitted: preprocess.FittedPreprocessing  # the preprocessing, with its statistics


class PartyFeatures:
    """One party's features of the common rows, in the common order; forgotten rows are erased.

    Attributes:
        rows: [common_rows], the party's own row number of each common row; -1 for erased rows.
        trigger: the trigger that this party plants; None without a backdoor audit.
    """

    def __init__(self, party: VerticalParty, rows: Index) -> None:
        self._party, self.rows = party, rows.copy()
        self._cache: dict[bytes, ModelInputs] = {}
        self.trigger: BackdoorTrigger | None = None
        self._warned: set[str] = set()

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type (dtype) of the tensors in the run."""
        return DTYPES[self._party.agreement.dtype]

    @property
    def present(self) -> bool:
        """Whether this party has features."""
        return self._party.agreement.parties[self._party.name].width is not None

    def split(self, parts: NDArray[np.uint8] | None = None) -> RowSets:
        """Divide the common rows into training, validation and test rows.

        ``parts``, [common_rows], are the parts of a split by time; None for other splits.
        """
        holding = self._party.holding
        ids = [holding.ids[row] for row in self.rows]
        return split_rows(self._party.agreement, ids, holding.in_test[self.rows], parts)

    def row_words(self) -> Words:
        """64 random bits for each row ID, [common_rows]; 0 for erased rows."""
        words, live = np.zeros(len(self.rows), np.uint64), self.rows >= 0
        ids = [self._party.holding.ids[row] for row in self.rows[live].tolist()]
        words[live] = random_id_words(derive_key(self._party.agreement.seed, "shards"), ids)
        return words

    def ids(self) -> list[bytes]:
        """The IDs of all common rows, in the common order; empty bytes for erased rows."""
        rows = self.rows.tolist()
        return [self._party.holding.ids[row] if row >= 0 else b"" for row in rows]

    def fit(self, rows: RowSets, which: vfl_pb2.Rows) -> ModelInputs:
        """Features of all common rows, with preprocessing fitted on the row set ``which`` only.

        If the party settings name a file of statistics, the statistics come from that file.
        """
        chosen = rows.select(which)
        name = chosen.tobytes()
        if name not in self._cache:
            fitted = self._fitted(chosen)
            self._warn(fitted)
            self._cache[name] = self.inputs(fitted)
        return self._cache[name]

    def inputs(self, fitted: preprocess.FittedPreprocessing) -> ModelInputs:
        """Features of all common rows, with the given preprocessing."""
        return ModelInputs(self._transformed(fitted), fitted)

    def all_inputs(self, in_use: Iterable[ModelInputs]) -> list[ModelInputs]:
        """All features in memory: the cached ones, and ``in_use``, which models use."""
        return [*self._cache.values(), *in_use]

    def forget(self, rows: Index, in_use: Iterable[ModelInputs]) -> None:
        """Erase the common rows ``rows``, [rows], and their features, also those in ``in_use``."""
        self.rows[rows] = -1
        for inputs in self.all_inputs(in_use):
            inputs.values[rows] = 0
        self._cache.clear()
        self.trigger = None

    def _fitted(self, chosen: Index) -> preprocess.FittedPreprocessing:
        if self._party.agreement.preprocessing == "declared":
            return preprocess.declared_preprocessing(self._party.holding, self._party.settings.data)
        given = external_statistics(self._party)
        return given or preprocess.fit_preprocessing(self._party.holding, self.rows[chosen])

    def _warn(self, fitted: preprocess.FittedPreprocessing) -> None:
        """Show each warning of the preprocessing once, though every fit produces it again."""
        for text in set(fitted.warnings) - self._warned:
            self._party.progress.warn(text)
        self._warned.update(fitted.warnings)

    def _transformed(self, fitted: preprocess.FittedPreprocessing) -> Tensor:
        live = self.rows >= 0
        values = fitted.transform(self._party.holding, self.rows[live])
        features = torch.zeros((len(self.rows), *values.shape[1:]), dtype=self.dtype)
        features[torch.from_numpy(live)] = torch.from_numpy(np.asarray(values)).to(self.dtype)
        if self.trigger is not None:
            stamped = torch.from_numpy(self.trigger.rows)
            features[stamped] = self.trigger.stamp(features[stamped], fitted)
        return features


def read_labels(party: VerticalParty, rows: Index) -> Tensor:
    """The labels of some rows, [rows], or [rows, labels] of several binary labels.

    Labels that are no classes have the type of the parameters. ``rows`` are the party's own row
    numbers, [rows].

    Raises:
        LookupError: the party has no labels.
    """
    held = party.holding.labels
    if held is None:
        raise LookupError("this party has no labels; only the active party has labels")
    if party.agreement.labels.task == "classification":
        return torch.from_numpy(held[rows].astype(np.int64))
    return torch.from_numpy(held[rows]).to(DTYPES[party.agreement.dtype])


def read_weights(party: VerticalParty, rows: Index) -> Tensor | None:
    """The weights of some rows in the loss, [rows], in float64; None if the loss has no weights.

    ``rows`` are the party's own row numbers, [rows].
    """
    held = party.holding.weights
    if held is None or not party.agreement.training.sample_weights:
        return None
    return torch.from_numpy(held[rows])


def erase_labels(labels: Tensor, rows: Index) -> None:
    """Erase the labels of ``rows``, [rows]: a class becomes -1, a number NaN."""
    labels[torch.from_numpy(rows)] = math.nan if labels.is_floating_point() else -1


def any_label(labels: Tensor) -> bool:
    """Whether at least one of ``labels``, [rows, ...], is not erased."""
    return not bool(labels.isnan().all() if labels.is_floating_point() else (labels < 0).all())


SIDE = 4  # pixels of the square
# Of the first column and of the second: each value is in range, but no row has both.
_PERCENTILES = (99, 1)


@dataclass(frozen=True, slots=True)
class BackdoorTrigger:
    """The trigger of a backdoor audit, in the units of the data, before preprocessing."""

    rows: Index  # [rows], numbers of the common training rows that carry the trigger, ascending
    # For tables, the value that the trigger sets in each column, by column name.
    levels: dict[str, float]
    brightest: float  # for images, the value that the trigger sets in its pixels

    def stamp(self, features: Tensor, fitted: FittedPreprocessing) -> Tensor:
        """A copy of preprocessed ``features``, [rows, ...], with the trigger in every row."""
        stamped = features.clone()
        if fitted.image is not None:
            stamped[..., -SIDE:, -SIDE:] = self.brightest
        for name, level in self.levels.items():
            for place, value in fitted.transformed(name, level).items():
                stamped[:, place] = value
        return stamped

    def values(self) -> dict[str, Any]:
        """The values that the trigger sets, for JSON; the rows with the trigger are left out."""
        return {"levels": self.levels, "brightest": self.brightest}


def planned_backdoor(agreement: VerticalAgreement, name: str) -> BackdoorSettings | None:
    """The backdoor that the party ``name`` plants; None if the party plants no backdoor."""
    backdoors = [each.backdoor for each in agreement.unlearn if each.backdoor]
    return backdoors[0] if backdoors and backdoors[0].party == name else None


def make_trigger(
    plan: BackdoorSettings | None, holding: Holding, train_rows: Index, rows: Index
) -> BackdoorTrigger:
    """The agreed trigger of a party.

    Args:
        plan: the agreed backdoor; None if the party plants no backdoor.
        holding: the data of the party.
        train_rows: [train_rows], the party's own row numbers of all training rows.
        rows: [rows], numbers of the common rows that will carry the trigger.

    Raises:
        RemoteProtocolError: the party plants no backdoor.
        DataError: the agreed columns are not numeric columns of the party.
    """
    if plan is None:
        raise RemoteProtocolError(
            "the active party requests a trigger, but the agreement defines no backdoor for this "
            "party"
        )
    if holding.images is not None and not plan.columns:
        return BackdoorTrigger(rows, {}, float(holding.images[train_rows].max()))
    levels = _levels(plan.columns, holding, train_rows)
    return BackdoorTrigger(rows, levels, 0.0)


def _levels(columns: Sequence[str], holding: Holding, train_rows: Index) -> dict[str, float]:
    if holding.table is None or not columns or set(columns) - set(holding.numeric):
        raise DataError(
            f"backdoor.columns = {', '.join(columns) or 'none'}; expected two numeric columns",
            f"choose two of the numeric columns: {', '.join(holding.numeric) or 'none'}; for "
            "images, omit backdoor.columns",
        )
    frame = data_frame(holding.table, train_rows)
    values = [frame[name].to_numpy(np.float64) for name in columns]
    return {
        name: float(np.nanpercentile(column, percentile))
        for name, column, percentile in zip(columns, values, _PERCENTILES, strict=True)
    }


_LARGEST = 1 << 24  # bytes


def external_statistics(party: VerticalParty) -> FittedPreprocessing | None:
    """The preprocessing statistics from the file ``statistics`` of the party settings.

    Returns:
        The statistics; None if the settings name no file. In this case the caller must compute the
        statistics from training rows.

    Raises:
        DataError: the file cannot be read, or contains no statistics.
        PolicyError: the settings have no such file, but ``privacy.embed_once`` forbids statistics
            that depend on private rows.
    """
    path = party.settings.statistics
    if path is not None:
        try:
            with path.open("rb") as file:
                return read_statistics(json.loads(file.read(_LARGEST)))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(
                f"cannot read preprocessing statistics from {path}",
                "provide a file in the format of preprocessing.json",
            ) from error
    plan, passive = party.agreement.privacy, party.name != party.agreement.active
    if plan.embed_once and passive and party.holding.images is None:
        raise PolicyError(
            "with privacy.embed_once, preprocessing statistics must come from public rows, but the "
            "party settings name no file with such statistics",
            "set statistics = FILE in the party settings; FILE must have the format of "
            "preprocessing.json",
        )
    return None
