"""RMU: activations of forgotten texts are steered away (Li et al. 2024)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from configs.table import Count, Positive
from parties.horizontal.local.local_task import TextTask
from parties.language.methods.loss_based import LossBasedUnlearning, LossSettings
from parties.report.method_names import Label


class RmuSettings(LossSettings):
    """Representation misdirection for unlearning (Li et al. 2024)."""

    # Layer whose outputs are steered, counted from 1; absent: the middle layer.
    layer: Count | None = None
    steering: Positive = 2.0  # norm c of the steering vector
    gamma: Positive = 1.0  # weight γ of the forgotten texts
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts

    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""
        return TextTask(
            objective="rmu",
            layer=self.layer or 0,
            steering=self.steering,
            gamma=self.gamma,
            alpha=self.alpha,
        )


@dataclass(frozen=True, slots=True)
class Rmu(LossBasedUnlearning):
    """Steers the outputs of one layer on forgotten texts to a random vector."""

    settings: ClassVar = RmuSettings
    label: ClassVar = Label("RMU", "activations of forgotten texts steered away")
