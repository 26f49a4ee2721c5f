"""Fine-tune, a baseline: continue to train the original model on D_r."""

from typing import ClassVar

from parties.report.method_names import Label
from parties.vertical.methods.epochs import EpochMethod, EpochSettings


class FineTuneSettings(EpochSettings):
    """Baseline: continue training on the remaining rows."""


class FineTuneMethod(EpochMethod):
    """Fine-tuning on D_r, a trivial baseline: no term of the loss removes the effect of D_u."""

    name: ClassVar = "fine-tune"
    label: ClassVar = Label("Fine-tune", "training goes on without the forgotten rows")
    settings: ClassVar = FineTuneSettings
