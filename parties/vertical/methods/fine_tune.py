"""Fine-tune, a baseline: continue to train the original model on D_r."""

from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
from configs.unlearning import MethodSettings
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.methods.epochs import EpochMethod
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import VerticalRun


class FineTuneSettings(MethodSettings):
    """Baseline: continue training on the remaining rows."""

    learning_rate: Positive = 1e-3
    epochs: Count = 2


class FineTuneMethod(EpochMethod):
    """Fine-tuning on D_r, a trivial baseline: no term of the loss removes the effect of D_u."""

    name: ClassVar = "fine-tune"
    settings: ClassVar = FineTuneSettings

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model."""
        plan = agreement.unlearning.of(FineTuneSettings)
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs)

    def epochs(self, run: VerticalRun) -> int:
        """The number of epochs."""
        return run.settings(FineTuneSettings).epochs

    def prepare(self, run: VerticalRun) -> None:
        """Start from the original model, with a new optimiser and a separate batch order."""
        rate = run.settings(FineTuneSettings).learning_rate
        run.start(ORIGINAL, self.name, UpdateRule.like_training(run.agreement.training, rate))
