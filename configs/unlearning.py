"""Unlearning in a vertical run: the methods that run, with one table of settings per method.

A method brings its own table. The caller of the loader knows the methods, and builds the class of
the table [unlearning] from them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import Field, create_model, model_validator

from configs.table import ConfigTable

ShrinkTop: TypeAlias = Literal["keep", "shrink", "fresh"]


class MethodSettings(ConfigTable):
    """The table of settings of one unlearning method."""

    def within(self, agreement: Any) -> Self:  # noqa: ARG002  methods override it
        """Return the settings with the defaults that depend on the rest of the agreement."""
        return self

    def check(self, agreement: Any) -> None:
        """Check the rules between these settings and the rest of the agreement.

        Raises:
            ValueError: a rule is broken; the message names the key to change.
        """

    def why_not_corrected(self) -> str:
        """Return why these settings cannot replace labels; empty if they can."""
        return ""


Settings = TypeVar("Settings", bound=MethodSettings)


@dataclass(frozen=True, slots=True)
class OtherLabels:
    """The methods for labels that are not one of several classes.

    Attributes:
        refused: methods that hold only for labels of one of several classes, and why.
        default: the default method, by whether a party may fit its bottom model alone.
        compared: methods that a comparison has by default.
    """

    refused: Mapping[str, str]
    default: Mapping[bool, str]
    compared: tuple[str, ...] = ()


class UnlearningSettings(ConfigTable):
    """The unlearning method of a run, and the baselines with which the run compares it."""

    always: ClassVar[tuple[str, ...]] = ()  # trivial baselines, in every comparison
    local: ClassVar[str | None] = None  # default method after a training with a local start
    correcting: ClassVar[tuple[str, ...]] = ()  # methods that can replace labels
    other_labels: ClassVar["OtherLabels"]  # methods for labels that are not classes

    # Method whose model is the result of the run. If absent: retrain-local with training.start =
    # "local", unless no bottom model may be fitted or 'compare' contains retrain-local; else
    # fedora.
    method: str
    compare: tuple[str, ...] = ()  # baselines to run besides the Retrains, in this order
    # Number of independent Retrains; 1 is refused, and the result of a request needs three or more.
    # 0, with an empty list 'compare': a request runs its method alone, and the report has the quick
    # audit. If labels are not one of several classes, and both keys are absent, retrains is 0.
    retrains: Annotated[int, Field(ge=0, le=10)] = 3

    def of(self, kind: type[Settings]) -> Settings:
        """The table of settings of the type ``kind``.

        Raises:
            LookupError: no method has settings of this type.
        """
        for name in type(self).model_fields:
            table = getattr(self, name)
            if isinstance(table, kind):
                return table
        raise LookupError(f"no unlearning method has settings of the type {kind.__name__}")

    def within(self, agreement: Any) -> Self:
        """Return the settings of all methods with the defaults that depend on the agreement."""
        tables = {name: getattr(self, name) for name in type(self).model_fields}
        settled = {
            name: table.within(agreement)
            for name, table in tables.items()
            if isinstance(table, MethodSettings)
        }
        changed: dict[str, Any] = {
            name: each for name, each in settled.items() if each is not tables[name]
        }
        if self._takes_local(agreement):
            changed["method"] = self.local
        refused: Collection[str] = ()
        if agreement.labels.task != "classification":
            changed |= self._without_classes(agreement)
            refused = self.other_labels.refused
        found = self.model_copy(update=changed) if changed else self
        found._require_trivial_baselines(refused)
        return found

    def _without_classes(self, agreement: Any) -> dict[str, Any]:
        """The defaults for labels that are not one of several classes, by key.

        Requests are compared with Retrains only if a key asks for this.

        Raises:
            ValueError: a key names a method that needs classes.
        """
        task, chosen = agreement.labels.task, self.model_fields_set
        named = [self.method] if "method" in chosen else []
        for method in (*named, *(self.compare if "compare" in chosen else ())):
            if method in self.other_labels.refused:
                raise ValueError(
                    f"the method {method!r} cannot be used with labels.task = {task!r}, because "
                    f"{self.other_labels.refused[method]}: choose another method"
                )
        found: dict[str, Any] = {}
        if not named:
            found["method"] = self.other_labels.default[agreement.may_fit_bottoms]
        if not any(key in chosen and getattr(self, key) for key in ("compare", "retrains")):
            return {"compare": (), "retrains": 0, **found}
        if "compare" not in chosen:
            found["compare"] = self.other_labels.compared
        return found

    def _takes_local(self, agreement: Any) -> bool:
        """Whether the default method is that of a training with a local start."""
        absent = "method" not in self.model_fields_set and self.local not in (None, *self.compare)
        return absent and agreement.training.start == "local" and agreement.may_fit_bottoms

    def tables(self) -> list[MethodSettings]:
        """The tables of all methods that run for a request."""
        names = [table_name(method) for method in (self.method, *self.compare)]
        found = [getattr(self, name, None) for name in names]
        return [each for each in found if isinstance(each, MethodSettings)]

    @model_validator(mode="after")
    def _retrains_have_a_spread(self) -> Self:
        if self.retrains == 1:
            raise ValueError(
                "the key 'retrains' must not be 1, because one Retrain shows no spread: set "
                "retrains to 2 or more (3 for a result), or to 0 for no comparison"
            )
        refuse_comparison_without_retrains(self.retrains, {"compare": self.compare})
        return self

    @model_validator(mode="after")
    def _compares_each_method_once(self) -> Self:
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("the key 'compare' names a method twice: remove the second entry")
        return self

    def _require_trivial_baselines(self, refused: Collection[str]) -> None:
        """Require the trivial baselines in a comparison, except those that the labels refuse.

        Raises:
            ValueError: one of them is not compared.
        """
        if not self.retrains or self.method == "sharded":  # no baseline works on shards
            return
        present = {self.method, *self.compare, *refused}
        lacking = [name for name in self.always if name not in present]
        if lacking:
            raise ValueError(
                f"unlearning.compare must contain {', '.join(lacking)}, because every comparison "
                "needs these baselines; for no comparison set compare = [] and retrains = 0"
            )


def refuse_comparison_without_retrains(
    retrains: int, compared: Mapping[str, Collection[object]]
) -> None:
    """Refuse methods to compare if there is no Retrain, which is the reference of a comparison.

    Args:
        retrains: number of Retrains.
        compared: methods to compare, by the name of the key that contains them.

    Raises:
        ValueError: the message names the key to change.
    """
    for key, methods in compared.items():
        if methods and not retrains:
            raise ValueError(
                f"with retrains = 0 a request runs its method alone, so the key {key!r} must be "
                f"empty: set {key} = [], or set retrains above 0"
            )


def table_name(method: str) -> str:
    """The key of a method's table: the name of the method, with underscores for hyphens."""
    return method.replace("-", "_")


def unlearning_table(
    methods: Mapping[str, type[MethodSettings] | None],
    baselines: tuple[str, ...],
    compared: tuple[str, ...],
    always: tuple[str, ...],
    correcting: tuple[str, ...] = (),
    local: str | None = None,
    other_labels: OtherLabels | None = None,
) -> type[UnlearningSettings]:
    """Build the class of the table [unlearning].

    Args:
        methods: the class of each method's table by the method's name, the default method first;
            None for a method without settings.
        baselines: names of the methods that can be compared.
        compared: names of the methods that are compared by default.
        always: names of the methods that every comparison must contain.
        correcting: names of the methods that can replace labels.
        local: the default method after a training with a local start.
        other_labels: the methods for labels that are not one of several classes; None: every one,
            and the default method stays.
    """
    first = next(iter(methods))
    tables: dict[str, Any] = {
        table_name(name): (kind, kind()) for name, kind in methods.items() if kind is not None
    }
    found = create_model(
        "UnlearningSettings",
        __base__=UnlearningSettings,
        __doc__=UnlearningSettings.__doc__,
        method=(one_of(tuple(methods)), first),
        compare=(several_of(baselines), compared),
        **tables,
    )
    found.always, found.correcting, found.local = always, correcting, local
    found.other_labels = other_labels or OtherLabels({}, dict.fromkeys((True, False), first))
    return found


def one_of(names: tuple[str, ...]) -> Any:
    """Return the type of a key whose value is one of ``names``."""
    return Literal[names]


def several_of(names: tuple[str, ...]) -> Any:
    """Return the type of a key whose value is a list of ``names``."""
    return tuple[one_of(names), ...]  # type: ignore[misc]
