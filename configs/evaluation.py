"""Evaluation of a vertical run: audits beyond the models' outputs, and the backdoor audit."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.table import ConfigTable, Count, Fraction, Name, Positive


class BackdoorSettings(ConfigTable):
    """A trigger that one passive party plants in the forgotten rows, which get the target class.

    On images the trigger is a square of 4x4 pixels at the bottom right of that party's part, as
    bright as the brightest pixel. On tables it is the 99th percentile of the first column and the
    1st percentile of the second column.
    """

    party: Name  # passive party that plants the trigger
    target: str  # class with which the rows are trained
    share: Fraction = 1.0  # fraction of the forgotten rows of other classes that get the trigger
    columns: tuple[str, ...] = ()  # two numeric columns of a table; empty for images

    @model_validator(mode="after")
    def _columns_are_two(self) -> Self:
        if len(set(self.columns)) != len(self.columns) or len(self.columns) not in (0, 2):
            raise ValueError("a trigger needs two different columns on a table, none on images")
        return self


class RelearnSettings(ConfigTable):
    """Relearning attack: plain SGD steps on the forgotten rows until they are known again."""

    learning_rate: Positive = 0.01
    batch: Count = 32
    max_steps: Count = 100  # steps after which the attack gives up
    orders: Annotated[int, Field(ge=3, le=100)] = 3  # number of random row orders that are tried


class EvaluationSettings(ConfigTable):
    """Audits that need more than the outputs of the models."""

    # Number of shadow models, trained on halves of the remaining rows, from which a second
    # membership attack is fitted; 0: no such attack.
    shadows: Annotated[int, Field(ge=0, le=64)] = 0
    relearn: RelearnSettings | None = None  # relearning attack; absent: not run
    # Also measure the unlearned model with one party's network at a time from before unlearning.
    completeness: bool = True
    # Permutations of the energy test.
    permutations: Annotated[int, Field(ge=19, le=100_000)] = 199
    # Permutations of the classifier two-sample test, each of which fits five models; 0: not run.
    classifier_permutations: Annotated[int, Field(ge=0, le=10_000)] = 0

    @model_validator(mode="after")
    def _shadows_are_enough(self) -> Self:
        if 0 < self.shadows < 4:
            raise ValueError("the shadow attack needs 4 or more shadow models; 0 turns it off")
        return self


def check_backdoors(
    backdoors: Sequence[BackdoorSettings], passive: Sequence[str], classes: Sequence[str]
) -> None:
    """Check the backdoors of a run against the agreement's parties and classes.

    Raises:
        ValueError: a backdoor names a party that is not passive or an unknown class, or there is
            more than one backdoor.
    """
    for each in backdoors:
        if each.party not in passive:
            raise ValueError(
                f"a backdoor is planted by a passive party, not {each.party!r}; "
                f"the passive parties are {', '.join(passive)}"
            )
        if each.target not in classes:
            raise ValueError(
                f"a backdoor names class {each.target!r}; the classes are {', '.join(classes)}"
            )
    if len(backdoors) > 1:
        raise ValueError("two requests have a backdoor: one trigger a run")
