"""How a run is evaluated beyond what the models' outputs show, and the backdoor of an audit."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.table import Count, Fraction, Name, Positive, Table


class Backdoor(Table):
    """A trigger that one passive party plants in D_u, whose rows learn the target class.

    On images a square of 4x4 pixels at the bottom right of that party's part, as bright as the
    brightest; on tables the 99th percentile of the first column and the 1st of the second.
    """

    party: Name
    target: str
    share: Fraction = 1.0  # of the rows of D_u that are of another class
    columns: tuple[str, ...] = ()  # of tables: two numeric ones

    @model_validator(mode="after")
    def _two(self) -> Self:
        if len(set(self.columns)) != len(self.columns) or len(self.columns) not in (0, 2):
            raise ValueError("a trigger on a table has two different columns, on images none")
        return self


class Relearn(Table):
    """How fast a model learns D_u again: plain SGD on D_u."""

    learning_rate: Positive = 0.01
    batch: Count = 32
    cap: Count = 100  # steps after which it is given up
    orders: Annotated[int, Field(ge=3, le=100)] = 3  # of the rows


class Evaluation(Table):
    """What is measured beside the figures that the models' outputs give for nothing."""

    # Models of the pipeline on halves of D_r, from which a second membership attack learns.
    shadows: Annotated[int, Field(ge=0, le=64)] = 0
    relearn: Relearn | None = None
    completeness: bool = True  # each party's half of the original in the unlearned model
    permutations: Annotated[int, Field(ge=19, le=100_000)] = 199  # of the energy test
    # Of the classifier test, which fits five models for each; 0: not run.
    classifier_permutations: Annotated[int, Field(ge=0, le=10_000)] = 0

    @model_validator(mode="after")
    def _enough_shadows(self) -> Self:
        if 0 < self.shadows < 4:
            raise ValueError("an attack learns from 4 or more shadow models; 0 trains none")
        return self


def refuse_misplaced(
    backdoors: Sequence[Backdoor], passive: Sequence[str], classes: Sequence[str]
) -> None:
    """Check what the backdoors of a run name.

    Raises:
        ValueError: a party that is not passive, an unknown class, or more than one backdoor.
    """
    for each in backdoors:
        if each.party not in passive:
            raise ValueError(
                f"a backdoor is planted by a passive party, not {each.party!r}; "
                f"they are {', '.join(passive)}"
            )
        if each.target not in classes:
            raise ValueError(
                f"a backdoor names class {each.target!r}; the classes are {', '.join(classes)}"
            )
    if len(backdoors) > 1:
        raise ValueError("two requests have a backdoor: one trigger a run")
