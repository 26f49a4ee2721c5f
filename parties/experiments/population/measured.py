"""What a study measures of one method, on one population with one seed, and the file of it."""

import io
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parties.common.atomic_file import write_atomically

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured of the models after one method."""

    # Log-odds of the label on the rows of the pool, ``[runs, pool]``, as the models give them.
    confidences: Floats
    # The same after one rule of calibration, which is applied to every method and to Retrain.
    calibrated: Floats
    test: Floats  # accuracy on test rows, ``[runs]``
    validation: Floats  # accuracy on validation rows, ``[runs]``
    # Fraction of the remaining rows for which the class differs from that of the original model of
    # the same run, ``[runs]``.
    changed: Floats
    # Fraction of the forgotten canaries that are predicted with their planted label, ``[runs]``;
    # empty without canaries.
    planted: Floats
    # Fraction of test rows that the trigger moves to the target class, above the fraction without
    # the trigger, ``[trigger runs]``; empty without a trigger.
    triggered: Floats
    facts: dict[str, Any]  # settings, cost and provenance, as JSON

    def with_facts(self, **facts: Any) -> "Measured":
        """Return the same with these facts added or replaced."""
        return replace(self, facts=self.facts | facts)

    def save(self, path: Path) -> None:
        """Write the file; after a crash it is whole or absent."""
        content = io.BytesIO()
        arrays = {name: getattr(self, name).astype(np.float32) for name in ARRAYS}
        np.savez_compressed(content, facts=np.array(json.dumps(self.facts)), **arrays)
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that ``save`` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name].astype(np.float64) for name in ARRAYS}
            return cls(**arrays, facts=json.loads(str(file["facts"])))

    @classmethod
    def nothing(cls, facts: dict[str, Any]) -> Self:
        """Return the facts of a method that gave no models."""
        return cls(**dict.fromkeys(ARRAYS, np.empty(0)), facts=facts)


ARRAYS = tuple(each.name for each in fields(Measured) if each.name != "facts")
