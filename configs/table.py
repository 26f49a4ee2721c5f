"""``ConfigTable``, the base class of all config tables, and value types that they share."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]  # also a DNS label
Fraction: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
Pin: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class ConfigTable(BaseModel):
    """A table of a config: immutable, without unknown keys and without implicit casts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
