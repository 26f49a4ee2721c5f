"""Top-only, a baseline: train a fresh top model on embeddings of D_r; keep the bottom models."""

from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
from configs.unlearning import MethodSettings
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.methods.epochs import EpochMethod
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import FRESH_TOP, VerticalRun


class TopOnlySettings(MethodSettings):
    """Baseline: train a new top model; embeddings of the remaining rows are sent only once."""

    learning_rate: Positive = 2e-3
    epochs: Count = 20


class TopOnlyMethod(EpochMethod):
    """A top model trained without D_u, on top of bottom models that were trained on D_u.

    The embeddings of D_r are sent once, and the training sends no further message.
    """

    name: ClassVar = "top-only"
    settings: ClassVar = TopOnlySettings
    only_top: ClassVar = True

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model, with a fresh top model."""
        plan = agreement.unlearning.of(TopOnlySettings)
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs, (FRESH_TOP.pair,))

    def epochs(self, run: VerticalRun) -> int:
        """The number of epochs."""
        return run.settings(TopOnlySettings).epochs

    def prepare(self, run: VerticalRun) -> None:
        """Replace the top model of the original model by a fresh one."""
        rate = run.settings(TopOnlySettings).learning_rate
        run.start(ORIGINAL, self.name, UpdateRule.like_training(run.agreement.training, rate))
        run.shrink(FRESH_TOP, self.name)
