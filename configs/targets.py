"""What a vertical model predicts: one of several classes, a number, or several binary labels."""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.table import ConfigTable

Task: TypeAlias = Literal["classification", "regression", "multilabel"]


class LabelSettings(ConfigTable):
    """The classes of the labels that the model predicts."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)]  # names of the classes, in order

    @model_validator(mode="after")
    def _classes_are_unique(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("two classes have the same name: rename one of them")
        return self


class TargetSettings(LabelSettings):
    """What the model predicts: one of several classes, a number, or several binary labels."""

    added_later: ClassVar[frozenset[str]] = frozenset({"task", "loss"})

    # Names of the classes, in order. regression: empty. multilabel: names of the binary labels, in
    # the order of the columns that the key label of the active party's data lists.
    classes: tuple[str, ...] = ()
    # classification: one of the classes. regression: a number. multilabel: for every label, whether
    # the row has it.
    task: Task = "classification"
    # Loss of a regression: the squared error, or the absolute error.
    loss: Literal["squared", "absolute"] = "squared"

    @property
    def outputs(self) -> int:
        """The number of outputs of the model."""
        return len(self.classes) or 1

    @model_validator(mode="after")
    def _has_what_the_task_needs(self) -> Self:
        if self.task == "regression" and self.classes:
            raise ValueError(
                "a number has no classes: remove the key 'classes', or set task = 'classification'"
            )
        if self.task != "regression" and len(self.classes) < 2:
            raise ValueError(
                f"task = {self.task!r} needs the key 'classes' with at least two names; for a "
                "number set task = 'regression'"
            )
        if self.task != "regression" and "loss" in self.model_fields_set:
            raise ValueError(
                f"the key 'loss' is for task = 'regression', not for {self.task!r}: remove it"
            )
        return self


def refuse_class_settings(plan: Any) -> None:
    """Refuse settings of the agreement ``plan`` that need classes, if its labels are none.

    Raises:
        ValueError: the message names the setting to remove.
    """
    task = plan.labels.task
    if task == "classification":
        return
    requests, evaluation = plan.unlearn, plan.evaluation
    needs = {
        "training.monitor = 'auc'": plan.training.monitor == "auc" and task == "regression",
        "training.class_weights": plan.training.class_weights is not None,
        "training.optimiser = 'newton-cg'": plan.training.optimiser == "newton-cg",
        "privacy.label_dp": plan.privacy.label_dp is not None,
        "unlearn.classes": any(each.classes for each in requests),
        "unlearn.canaries": any(each.canaries for each in requests),
        "unlearn.backdoor": any(each.backdoor for each in requests),
        "unlearn.corrects": any(each.corrects for each in requests),
        "evaluation.shadows": bool(evaluation.shadows),
        "evaluation.relearn": evaluation.relearn is not None,
        "evaluation.classifier_permutations": bool(evaluation.classifier_permutations),
    }
    for setting, used in needs.items():
        if used:
            raise ValueError(
                f"{setting} needs labels of which a row has one of several classes, but "
                f"labels.task is {task!r}: remove {setting}"
            )
