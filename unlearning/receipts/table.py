"""``JsonTable``, the base class of the JSON objects of receipts, and types that they share."""

import json
import math
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from unlearning.receipts.canonical import JsonValue, read_json
from unlearning.receipts.errors import ReceiptError

T = TypeVar("T", bound="JsonTable")
_MINUTE = "%Y-%m-%dT%H:%MZ"
_UPWARDS = Context(prec=6, rounding=ROUND_CEILING)  # significant digits of an upper bound


def _real_minute(text: str) -> str:
    datetime.strptime(text, _MINUTE)
    return text


def _real_day(text: str) -> str:
    datetime.strptime(text, "%Y-%m-%d")
    return text


Hash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PartyName: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Word: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Ulid: TypeAlias = Annotated[str, Field(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
KeyId: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
Number: TypeAlias = Annotated[  # a decimal number, as text
    str, Field(pattern=r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?(e-?[1-9][0-9]{0,2})?$")
]
Minute: TypeAlias = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(_real_minute),
]
Day: TypeAlias = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_real_day)
]


class JsonTable(BaseModel):
    """A JSON object: immutable, without unknown keys and without implicit casts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    # Fields that are absent from the JSON object where they are None. A field that is added to a
    # format belongs here, so that the bytes of earlier files, which are signed, stay the same.
    absent_if_none: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {
            name: each
            for name, each in found.items()
            if each is not None or name not in self.absent_if_none
        }

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON values; fields are present unless ``absent_if_none``."""
        return self.model_dump(mode="json")


def minute_text(moment: datetime) -> str:
    """Return the minute of ``moment`` in UTC, as receipts write it.

    Raises:
        ReceiptError: ``moment`` has no time zone.
    """
    if moment.tzinfo is None:
        raise ReceiptError("a time has no time zone", "use datetime.now(UTC)")
    return moment.astimezone(UTC).strftime(_MINUTE)


def number_text(value: float) -> str:
    """Return a number as decimal text, the shortest one that reads back as ``value``.

    Raises:
        ReceiptError: ``value`` is not finite.
    """
    if not math.isfinite(value):
        raise ReceiptError(f"a number of a receipt must be finite (got {value})")
    text = repr(float(value)).replace("e+", "e").replace("e-0", "e-")
    return text.removesuffix(".0").replace(".0e", "e")


def upper_bound_text(value: float) -> str:
    """Return an upper bound as decimal text: 6 significant digits, rounded up.

    Raises:
        ReceiptError: ``value`` is not finite.
    """
    if not math.isfinite(value):
        return number_text(value)
    return number_text(float(_UPWARDS.create_decimal(Decimal(repr(float(value))))))


def read_table(kind: type[T], data: bytes, what: str) -> T:
    """Read a JSON file whose bytes need not be canonical.

    Args:
        kind: the table that the file contains.
        data: the bytes of the file.
        what: name of the file, for the error.

    Raises:
        ReceiptError: the file is no JSON, or not such a table.
    """
    return table_of(kind, read_json(data, what), what)


def table_of(kind: type[T], value: JsonValue, what: str) -> T:
    """Return the table that JSON values describe.

    Args:
        kind: the table.
        value: the JSON values.
        what: name of the file that contains them, for the error.

    Raises:
        ReceiptError: the values are not such a table; the error names the first wrong field.
    """
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        at = f" at {place}" if place else ""
        raise ReceiptError(f"{what} is malformed{at}: {reason}") from None
