"""Attacks on a model that forgot: weights rounded to few bits can bring back what only hides."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from peft import PeftModel

from models.language.adapters import merge
from models.language.rounding import Bits, rounded_model
from parties.horizontal.language.room import Room


def rounded(room: Room, bits: Bits) -> Room:
    """The same model with its adapters merged and its linear weights rounded to ``bits``."""
    other: Any = deepcopy(room.model)
    plain = merge(other) if isinstance(other, PeftModel) else other
    return replace(room, model=rounded_model(plain, bits).eval())
