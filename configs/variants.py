"""Variants: additional runs of an unlearning method with other settings."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import Field, JsonValue, ValidationError, create_model, model_validator

from configs.table import ConfigTable, Name
from configs.unlearning import (
    MethodSettings,
    one_of,
    refuse_comparison_without_retrains,
    several_of,
    table_name,
)


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
    # Number of Retrains. 0, with empty lists 'compare' and 'variants': a request runs its method
    # alone, and the report has the quick audit.
    retrains: Annotated[int, Field(ge=0, lt=2**31)] = 1

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        """Return the names of all methods that a config can choose."""
        return get_args(cls.model_fields["method"].annotation)

    def table(self, method: str) -> MethodSettings | None:
        """Return the settings of a method; None if the method has no settings."""
        found: MethodSettings | None = getattr(self, table_name(method), None)
        return found

    def tables(self) -> list[tuple[str, MethodSettings]]:
        """Return the settings of all methods and variants that run, each after its place."""
        found = [
            (f"unlearning.variants, {each.name!r}: ", self.at(each).table(each.method))
            for each in self.variants
        ]
        chosen = (self.method, *self.compare)
        found += [(f"unlearning.{table_name(each)}.", self.table(each)) for each in chosen]
        return [(place, each) for place, each in found if each is not None]

    def at(self, variant: MethodVariant) -> Self:
        """Return a copy of these settings, with ``variant``'s settings for the variant's method."""
        field = table_name(variant.method)
        own = self.model_dump(mode="json")
        own["variants"] = []
        own[field] = merge_tables(own.get(field), variant.settings)
        return self.model_validate_json(json.dumps(own), strict=True)

    @model_validator(mode="after")
    def _comparison_has_a_reference(self) -> Self:
        compared = {"compare": self.compare, "variants": self.variants}
        refuse_comparison_without_retrains(self.retrains, compared)
        return self

    @model_validator(mode="after")
    def _variants_can_be_run(self) -> Self:
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("the key 'compare' names a method twice: remove the second entry")
        names = [*self.methods(), *(each.name for each in self.variants)]
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


Base = TypeVar("Base", bound=UnlearningSettingsBase)


def variants_table(
    base: type[Base],
    variant: type[MethodVariant],
    methods: Mapping[str, type[MethodSettings] | None],
    chosen: str,
) -> type[Base]:
    """Build the class of the table [unlearning] with the settings of all methods.

    Args:
        base: the keys that do not depend on the methods.
        variant: the keys of a variant; its method can only be one of ``methods``.
        methods: the class of each method's table by the method's name; None for a method without
            settings.
        chosen: name of the default method.
    """
    name = one_of(tuple(methods))
    tables: dict[str, Any] = {
        table_name(method): (kind, kind()) for method, kind in methods.items() if kind is not None
    }
    own = create_model(
        variant.__name__,
        __base__=variant,
        __doc__=variant.__doc__,
        __module__=variant.__module__,
        method=(name, ...),
    )
    return create_model(
        base.__name__,
        __base__=base,
        __doc__=base.__doc__,
        __module__=base.__module__,
        method=(name, chosen),
        compare=(several_of(tuple(methods)), ("fine-tune",)),
        variants=(tuple[own, ...], ()),  # type: ignore[valid-type]
        **tables,
    )
