"""Shrink and perturb, a baseline: move parameters towards fresh values, then train on D_r."""

from typing import ClassVar

from configs.table import Count, Fraction
from configs.unlearning import ShrinkTop
from parties.report.method_names import Label
from parties.vertical.methods.epochs import EpochMethod, EpochSettings
from parties.vertical.methods.run import ShrinkShares


class ShrinkPerturbSettings(EpochSettings):
    """Baseline: move every bottom model towards new random weights, then fine-tune."""

    share: Fraction = 0.3  # share s in θ <- (1 - s) θ + s θ_new
    # Top model. keep: unchanged. shrink: moved like the bottoms. fresh: a new top model.
    top: ShrinkTop = "keep"
    epochs: Count = 6


class ShrinkPerturbMethod(EpochMethod):
    """Shrink and perturb: a random change weakens the effect of D_u; training restores utility."""

    name: ClassVar = "shrink-perturb"
    label: ClassVar = Label("Shrink-perturb", "mixed with new random weights, then fine-tuned")
    settings: ClassVar = ShrinkPerturbSettings
    corrects: ClassVar = True

    def shrinks(self, plan: ShrinkPerturbSettings) -> tuple[ShrinkShares, ...]:
        """All parameters move towards fresh values."""
        return (ShrinkShares.agreed(plan.share, plan.top),)
