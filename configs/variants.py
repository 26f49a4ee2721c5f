"""A method that is run once more with other settings, beside the methods of a request."""

import json
from typing import Self, get_args

from pydantic import JsonValue, ValidationError, model_validator

from configs.merging import merged
from configs.table import Name, Table


class Variant(Table):
    """A method once more with other settings: an ablation, a mode."""

    name: Name
    method: str
    settings: dict[str, JsonValue]  # of the method's own table


class Unlearning(Table):
    """What is run for every request: each method has a table of its name, with underscores."""

    method: str
    compare: tuple[str, ...] = ()
    also: tuple[Variant, ...] = ()  # beside method and what it is compared with

    def at(self, variant: Variant) -> Self:
        """These settings with those of a variant in their place."""
        field = variant.method.replace("-", "_")
        own = self.model_dump(mode="json")
        own["also"] = []
        own[field] = merged(own.get(field), variant.settings)
        return self.model_validate_json(json.dumps(own), strict=True)

    @model_validator(mode="after")
    def _variants_can_be_run(self) -> Self:
        methods = get_args(type(self).model_fields["method"].annotation)
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("compare names a method twice")
        names = [*methods, *(each.name for each in self.also)]
        if len(set(names)) < len(names):
            raise ValueError("a variant bears the name of another one, or of a method")
        if any(each.name.startswith(("retrain", "original")) for each in self.also):
            raise ValueError("a variant bears the name of a Retrain, or of the original")
        for each in self.also:
            try:
                self.at(each)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                place = ".".join(map(str, first["loc"]))
                raise ValueError(f"variant {each.name!r}: {place}: {first['msg']}") from None
        return self
