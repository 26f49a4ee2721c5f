"""GradDiff: ascent on the forgotten texts, and descent on the retained texts."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from configs.table import Positive
from parties.horizontal.local.local_task import TextTask
from parties.language.methods.loss_based import LossBasedUnlearning, LossSettings
from parties.report.method_names import Label


class GradDiffSettings(LossSettings):
    """Gradient ascent on the forgotten texts and descent on the remaining texts."""

    gamma: Positive = 1.0  # weight γ of the forgotten texts
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts
    # Loss on the remaining texts: negative log-likelihood, or KL divergence to the trained model.
    retain: Literal["nll", "kl"] = "nll"

    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""
        return TextTask(
            objective="grad-diff", gamma=self.gamma, alpha=self.alpha, retain=self.retain
        )


@dataclass(frozen=True, slots=True)
class GradDiff(LossBasedUnlearning):
    """Maximises the loss of forgotten texts, and minimises the loss of retained texts."""

    settings: ClassVar = GradDiffSettings
    label: ClassVar = Label("GradDiff", "ascent on forgotten texts, descent on retained ones")
