"""SimNPO: NPO by length, without a reference model (Fan et al. 2024)."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from configs.table import Positive
from parties.horizontal.local.local_task import TextTask
from parties.language.methods.grad_diff import GradDiffSettings
from parties.language.methods.loss_based import LossBasedUnlearning
from parties.report.method_names import Label


class SimNpoSettings(GradDiffSettings):
    """Negative preference optimisation without a reference model (Fan et al. 2024)."""

    beta: Positive = 4.5  # inverse temperature β
    delta: Annotated[float, Field(ge=0)] = 0.0  # reward margin δ
    gamma: Positive = 0.125  # weight γ of the forgotten texts

    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""
        return replace(super().text_task(), objective="simnpo", beta=self.beta, delta=self.delta)


@dataclass(frozen=True, slots=True)
class SimNpo(LossBasedUnlearning):
    """Lowers the preference of forgotten answers, weighted by their length."""

    settings: ClassVar = SimNpoSettings
    label: ClassVar = Label("SimNPO", "NPO by length, without a reference model")
