"""Top-only, a baseline: train a fresh top model on embeddings of D_r; keep the bottom models."""

from typing import ClassVar

from configs.table import Count, Positive
from parties.report.method_names import Label
from parties.vertical.methods.epochs import EpochMethod, EpochSettings
from parties.vertical.methods.run import FRESH_TOP, ShrinkShares


class TopOnlySettings(EpochSettings):
    """Baseline: train a new top model; embeddings of the remaining rows are sent only once."""

    learning_rate: Positive = 2e-3
    epochs: Count = 20


class TopOnlyMethod(EpochMethod):
    """A top model trained without D_u, on top of bottom models that were trained on D_u.

    The embeddings of D_r are sent once, and the training sends no further message.
    """

    name: ClassVar = "top-only"
    label: ClassVar = Label("Top only", "a new top model; the bottom models stay")
    settings: ClassVar = TopOnlySettings
    corrects: ClassVar = True
    only_top: ClassVar = True

    def shrinks(self, _plan: TopOnlySettings) -> tuple[ShrinkShares, ...]:
        """A fresh top model."""
        return (FRESH_TOP,)
