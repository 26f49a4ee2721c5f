"""The trigger of a backdoor audit: what one party's rows bear once they are stamped with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from configs.agreement import Agreement
from configs.evaluation import Backdoor
from parties.common.errors import DataError
from parties.common.shared_randomness import Index
from parties.data.holding import Holding
from parties.data.preprocess import Fitted
from protocol.errors import RemoteProtocolError

SIDE = 4  # pixels of the square
_PERCENTILES = (99, 1)  # of the first column and of the second: jointly absent, each in range


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger in the units of the data, so that preprocessing scales it as it scales the rows.

    Attributes:
        rows: aligned training rows that bear it, ascending.
        levels: value of each column, of tables.
        brightest: pixel, of images.
    """

    rows: Index
    levels: dict[str, float]
    brightest: float

    def stamp(self, features: Tensor, fitted: Fitted) -> Tensor:
        """A copy of preprocessed rows, [rows, ...], that bear the trigger."""
        stamped = features.clone()
        if fitted.image is not None:
            stamped[..., -SIDE:, -SIDE:] = self.brightest
        for name, level in self.levels.items():
            how = fitted.numeric[name]
            stamped[:, list(fitted.numeric).index(name)] = (level - how.mean) / how.scale
        return stamped

    def values(self) -> dict[str, Any]:
        """All but the rows, as JSON has it."""
        return {"levels": self.levels, "brightest": self.brightest}


def planned(agreement: Agreement, name: str) -> Backdoor | None:
    """The backdoor that party ``name`` plants."""
    found = [each.backdoor for each in agreement.unlearn if each.backdoor]
    return found[0] if found and found[0].party == name else None


def make_trigger(plan: Backdoor | None, holding: Holding, learn: Index, rows: Index) -> Trigger:
    """The agreed trigger for ``rows``; ``learn`` are our own numbers of all training rows.

    Raises:
        RemoteProtocolError: the agreement has no backdoor here.
        DataError: the agreed columns are not ours to set.
    """
    if plan is None:
        raise RemoteProtocolError("asks for a trigger, and the agreement has no backdoor here")
    if holding.images is not None and not plan.columns:
        return Trigger(rows, {}, float(holding.images[learn].max()))
    levels = _levels(plan.columns, holding, learn)
    return Trigger(rows, levels, 0.0)


def _levels(columns: Sequence[str], holding: Holding, learn: Index) -> dict[str, float]:
    if holding.table is None or not columns or set(columns) - set(holding.numeric):
        raise DataError(
            f"the backdoor's columns are {', '.join(columns) or 'none'}",
            f"name two of the numeric columns, {', '.join(holding.numeric) or 'none'}; images "
            "take no columns",
        )
    frame = holding.table.frame(learn)
    values = [frame[name].to_numpy(np.float64) for name in columns]
    return {
        name: float(np.nanpercentile(column, percentile))
        for name, column, percentile in zip(columns, values, _PERCENTILES, strict=True)
    }
