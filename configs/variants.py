"""Variants: additional runs of an unlearning method with other settings."""

import json
from typing import Self, get_args

from pydantic import JsonValue, ValidationError, model_validator

from configs.table import ConfigTable, Name


class MethodVariant(ConfigTable):
    """An additional run of a method with other settings, for example without one component."""

    name: Name  # name of the variant in the results
    method: str  # method that is run
    settings: dict[str, JsonValue]  # keys of the method's own table that differ, with their values


class UnlearningSettingsBase(ConfigTable):
    """Methods to run for every request, with one table of settings per method.

    The name of the table is the name of the method with underscores instead of hyphens.
    """

    method: str  # method whose model is the result of the run
    compare: tuple[str, ...] = ()  # further methods to run and compare
    variants: tuple[MethodVariant, ...] = ()  # methods to run once more with other settings

    def at(self, variant: MethodVariant) -> Self:
        """Return a copy of these settings, with ``variant``'s settings for the variant's method."""
        field = variant.method.replace("-", "_")
        own = self.model_dump(mode="json")
        own["variants"] = []
        own[field] = merge_tables(own.get(field), variant.settings)
        return self.model_validate_json(json.dumps(own), strict=True)

    @model_validator(mode="after")
    def _variants_can_be_run(self) -> Self:
        methods = get_args(type(self).model_fields["method"].annotation)
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("the key 'compare' names a method twice: remove the second entry")
        names = [*methods, *(each.name for each in self.variants)]
        if len(set(names)) < len(names):
            raise ValueError(
                "a variant has the name of another variant or of a method: rename the variant"
            )
        if any(each.name.startswith(("retrain", "original")) for each in self.variants):
            raise ValueError(
                "the name of a variant must not begin with 'retrain' or 'original', which are "
                "reserved"
            )
        for each in self.variants:
            try:
                self.at(each)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                place = ".".join(map(str, first["loc"]))
                raise ValueError(f"variant {each.name!r}: {place}: {first['msg']}") from None
        return self


def merge_tables(ours: JsonValue, theirs: JsonValue) -> JsonValue:
    """Return ``ours`` with the values of ``theirs``; two tables are merged key by key."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return theirs
    changed = {name: merge_tables(ours.get(name), each) for name, each in theirs.items()}
    return {**ours, **changed}
