"""``ConfigTable``, the base class of all config tables, and value types that they share."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]  # also a DNS label
Fraction: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
PathText: TypeAlias = Annotated[Path, Field(strict=False)]
Pin: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class ConfigTable(BaseModel):
    """A table of a config: immutable, without unknown keys and without implicit casts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    # Keys that a later version of vfl added: the canonical form of an agreement contains them only
    # where they are set, so that an agreement without them keeps its digest.
    added_later: ClassVar[frozenset[str]] = frozenset()

    def canonical(self) -> dict[str, Any]:
        """Return the table as JSON, defaults included, without unset keys of a later version."""
        fields = type(self).model_fields
        unset = {name for name in self.added_later if getattr(self, name) == fields[name].default}
        return self.model_dump(mode="json", exclude=unset)
