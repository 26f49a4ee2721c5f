"""``ConfigTable``, the base class of all config tables, and value types that they share."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]  # also a DNS label
Fraction: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
PathText: TypeAlias = Annotated[Path, Field(strict=False)]
Pin: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]

# The context of ``model_dump`` for the canonical form.
_CANONICAL: Final = {"form": "canonical"}


class ConfigTable(BaseModel):
    """A table of a config: immutable, without unknown keys and without implicit casts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    # Keys that a later version of vfl added: the canonical form of an agreement contains them only
    # where they are set, so that an agreement without them keeps its digest.
    added_later: ClassVar[frozenset[str]] = frozenset()

    def canonical(self) -> dict[str, Any]:
        """Return the table and the tables in it as JSON, defaults included.

        Unset keys of a later version (``added_later``) are left out.
        """
        return self.model_dump(mode="json", context=_CANONICAL)

    @model_serializer(mode="wrap")
    def _without_unset_keys(
        self, dump: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        content: dict[str, Any] = dump(self)
        if info.context is not _CANONICAL:
            return content
        fields = type(self).model_fields
        unset = {name for name in self.added_later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in content.items() if name not in unset}
