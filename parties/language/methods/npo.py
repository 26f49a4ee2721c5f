"""NPO: the forgotten answers count as rejected preferences (Zhang et al. 2024)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from configs.table import Positive
from parties.horizontal.local.local_task import TextTask
from parties.language.methods.grad_diff import GradDiffSettings
from parties.language.methods.loss_based import LossBasedUnlearning
from parties.report.method_names import Label


class NpoSettings(GradDiffSettings):
    """Negative preference optimisation (Zhang et al. 2024)."""

    beta: Positive = 0.1  # inverse temperature β

    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""
        return replace(super().text_task(), objective="npo", beta=self.beta)


@dataclass(frozen=True, slots=True)
class Npo(LossBasedUnlearning):
    """Lowers the preference of forgotten answers relative to the original model."""

    settings: ClassVar = NpoSettings
    label: ClassVar = Label("NPO", "forgotten answers as rejected preferences")
