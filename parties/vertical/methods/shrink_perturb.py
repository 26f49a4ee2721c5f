"""Shrink and perturb, a baseline: move parameters towards fresh values, then train on D_r."""

from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Count, Fraction, Positive
from configs.unlearning import MethodSettings, ShrinkTop
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.methods.epochs import EpochMethod
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import ShrinkShares, VerticalRun


class ShrinkPerturbSettings(MethodSettings):
    """Baseline: move every bottom model towards new random weights, then fine-tune."""

    share: Fraction = 0.3  # share s in θ <- (1 - s) θ + s θ_new
    # Top model. keep: unchanged. shrink: moved like the bottoms. fresh: a new top model.
    top: ShrinkTop = "keep"
    learning_rate: Positive = 1e-3
    epochs: Count = 6


class ShrinkPerturbMethod(EpochMethod):
    """Shrink and perturb: a random change weakens the effect of D_u; training restores utility."""

    name: ClassVar = "shrink-perturb"
    settings: ClassVar = ShrinkPerturbSettings

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model, moved towards fresh values."""
        plan = agreement.unlearning.of(ShrinkPerturbSettings)
        shares = ShrinkShares.agreed(plan.share, plan.top)
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs, (shares.pair,))

    def epochs(self, run: VerticalRun) -> int:
        """The number of epochs."""
        return run.settings(ShrinkPerturbSettings).epochs

    def prepare(self, run: VerticalRun) -> None:
        """Shrink all parameters of the original model towards fresh values."""
        plan = run.settings(ShrinkPerturbSettings)
        run.start(
            ORIGINAL,
            self.name,
            UpdateRule.like_training(run.agreement.training, plan.learning_rate),
        )
        run.shrink(ShrinkShares.agreed(plan.share, plan.top), self.name)
