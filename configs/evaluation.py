"""Settings of the evaluation of a vertical run: additional audits and the backdoor audit."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from configs.table import ConfigTable, Count, Fraction, Name, Positive


class BackdoorSettings(ConfigTable):
    """Backdoor: a passive party adds a trigger to forgotten rows, which get the label ``target``.

    On images the trigger is a square of 4x4 pixels at the bottom right of the passive party's part
    of each image. All pixels of the square get the largest pixel value of the party's training
    images. On tables the trigger replaces the values in two columns, which the key ``columns``
    names: the value in the first column becomes the 99th percentile of this column, and the value
    in the second column becomes the 1st percentile of that column.
    """

    party: Name  # passive party that plants the trigger
    target: str  # class with which the rows with the trigger are trained
    # Fraction of the forgotten rows that get the trigger; rows of the target class are not counted.
    share: Fraction = 1.0
    columns: tuple[str, ...] = ()  # two numeric columns of a table; empty for images

    @model_validator(mode="after")
    def _columns_are_two(self) -> Self:
        if len(set(self.columns)) != len(self.columns) or len(self.columns) not in (0, 2):
            raise ValueError(
                "the key 'columns' must name two different columns of a table; for images the key "
                "must be absent"
            )
        return self


class RelearnSettings(ConfigTable):
    """Relearning attack: SGD steps on the forgotten rows until the model predicts them again."""

    learning_rate: Positive = 0.01
    batch: Count = 32
    max_steps: Count = 100  # largest number of steps of the attack
    orders: Annotated[int, Field(ge=3, le=100)] = 3  # number of random row orders that are tried


class EvaluationSettings(ConfigTable):
    """Settings of the evaluation of a run: a model for comparison, and additional audits."""

    added_later: ClassVar[frozenset[str]] = frozenset({"alone", "importance"})

    # Whether the active party trains, after the joint training and without any message, a model of
    # its own columns alone, which shows what joining brings. Without columns, it is the most
    # frequent class.
    alone: bool = True
    # Permutation importance on test rows: how often each party's embeddings, and each column of the
    # active party, are permuted. No message is sent for it. 0: not measured.
    importance: Annotated[int, Field(ge=0, le=1000)] = 0
    # Number of shadow models, each trained on half of the remaining rows, for a second membership
    # attack; 0: no such attack.
    shadows: Annotated[int, Field(ge=0, le=64)] = 0
    relearn: RelearnSettings | None = None  # relearning attack; absent: not run
    # Whether the completeness audit runs. For each party in turn, the audit measures the unlearned
    # model with this party's network from before unlearning.
    completeness: bool = True
    # Permutations of the energy test.
    permutations: Annotated[int, Field(ge=19, le=100_000)] = 199
    # Permutations of the classifier two-sample test; every permutation fits five models. 0: the
    # test is not run.
    classifier_permutations: Annotated[int, Field(ge=0, le=10_000)] = 0

    @model_validator(mode="after")
    def _shadows_are_enough(self) -> Self:
        if 0 < self.shadows < 4:
            raise ValueError("the key 'shadows' must be at least 4, or 0 for no shadow attack")
        return self


def refuse_full_audits(plan: EvaluationSettings) -> None:
    """Refuse audits that train models or need a Retrain, in a run whose requests train none.

    Raises:
        ValueError: the message names the key to change.
    """
    needs = {
        "shadows": (plan.shadows, "trains shadow models", "set evaluation.shadows = 0"),
        "relearn": (
            plan.relearn,
            "trains the unlearned model and a Retrain",
            "remove evaluation.relearn",
        ),
        "classifier_permutations": (
            plan.classifier_permutations,
            "compares with a Retrain",
            "set evaluation.classifier_permutations = 0",
        ),
    }
    for key, (chosen, need, hint) in needs.items():
        if chosen:
            raise ValueError(
                f"evaluation.{key} {need}, but with unlearning.retrains = 0 a request runs its "
                f"method alone: {hint}, or set unlearning.retrains to 2 or more"
            )


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
                f"backdoor.party must be a passive party (got {each.party!r}); the passive "
                f"parties are {', '.join(passive)}"
            )
        if each.target not in classes:
            raise ValueError(
                f"backdoor.target must be a class (got {each.target!r}); the classes are "
                f"{', '.join(classes)}"
            )
    if len(backdoors) > 1:
        raise ValueError(
            "several requests have the key 'backdoor', but a run can measure only one backdoor: "
            "keep the key in one request"
        )
