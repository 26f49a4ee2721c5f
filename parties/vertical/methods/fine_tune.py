"""Fine-tune, a baseline: continue to train the original model, or an early checkpoint, on D_r."""

import math
from typing import ClassVar, Literal

from configs.agreement import VerticalAgreement
from configs.table import Fraction
from parties.report.method_names import Label
from parties.requests.driver import NOTHING, Needs, StepResult
from parties.vertical.engine.local_model import EARLY_CHECKPOINT, NEXT_EARLY_CHECKPOINT, ORIGINAL
from parties.vertical.methods.epochs import EpochMethod, EpochSettings, EpochState
from parties.vertical.methods.run import VerticalRun


class FineTuneSettings(EpochSettings):
    """Baseline: continue training on the remaining rows."""

    # Model of the first epoch. original: the trained model. rewind: the early checkpoint that every
    # party saved during training.
    start: Literal["original", "rewind"] = "original"
    # Fraction of the training epochs after which the early checkpoint is saved.
    rewind: Fraction = 0.2


class FineTuneMethod(EpochMethod):
    """Fine-tuning on D_r, a trivial baseline: no term of the loss removes the effect of D_u."""

    name: ClassVar = "fine-tune"
    label: ClassVar = Label("Fine-tune", "training goes on without the forgotten rows")
    settings: ClassVar = FineTuneSettings
    corrects: ClassVar = True

    def needs(self, agreement: VerticalAgreement) -> Needs:
        """The early checkpoint, if the method starts from it."""
        plan = agreement.unlearning.of(FineTuneSettings)
        return Needs(early_checkpoint=plan.rewind) if plan.start == "rewind" else NOTHING

    def slot(self, plan: FineTuneSettings) -> str:
        """The name of the copy from which the method starts."""
        return EARLY_CHECKPOINT if plan.start == "rewind" else ORIGINAL

    def step(self, run: VerticalRun, state: EpochState, k: int) -> StepResult[EpochState]:
        """Train one epoch; keep the early checkpoint of the next request when it is due."""
        plan, done = run.settings(FineTuneSettings), super().step(run, state, k)
        if plan.start == "rewind" and k + 1 == math.ceil(plan.rewind * plan.epochs):
            run.keep(NEXT_EARLY_CHECKPOINT)
        return done
