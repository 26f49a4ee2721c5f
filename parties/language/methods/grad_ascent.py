"""GradAscent: gradient ascent on the forgotten texts."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from parties.horizontal.local.local_task import TextTask
from parties.language.methods.loss_based import LossBasedUnlearning, LossSettings
from parties.report.method_names import Label


class GradAscentSettings(LossSettings):
    """Gradient ascent on the forgotten texts."""

    # Whether a client stops the ascent at the loss of a uniform guess; in the paper clients do not
    # stop.
    stop_at_uniform: bool = Field(default=True, exclude_if=bool)

    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""
        return TextTask(objective="grad-ascent", stop_at_uniform=self.stop_at_uniform)


@dataclass(frozen=True, slots=True)
class GradAscent(LossBasedUnlearning):
    """Maximises the loss of the forgotten texts."""

    settings: ClassVar = GradAscentSettings
    label: ClassVar = Label("GradAscent", "gradient ascent on forgotten texts")
