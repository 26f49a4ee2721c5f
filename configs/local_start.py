"""Settings of the training with a local start."""

from typing import Annotated, Literal

from pydantic import Field

from configs.table import ConfigTable, Count, Fraction, Positive

MANY_ROWS = 20_000  # above this number of rows, fewer epochs of the local fit are enough


class LocalStartSettings(ConfigTable):
    """Training with a local start: every party first fits its bottom model to codes of its rows."""

    # Codes to which a bottom model is fitted. svd: whitened directions of the largest variance.
    # patches: the same of patch features of images; as svd for tables, and for images with fewer
    # than 12 pixels on a side. auto: patches for the bottom models cnn, resnet18, resnet50 and
    # densenet121, svd for others. projection: a random projection, which depends on no row. fixed:
    # no fit; the bottom models keep their random weights, and no joint epoch follows.
    codes: Literal["auto", "svd", "patches", "projection", "fixed"] = "auto"
    fit_learning_rate: Positive = 2e-3  # of the fit of the bottom models, which adam carries out
    # Epochs of the fit; absent: 20, or 3 above 20,000 rows.
    fit_epochs: Count | None = None
    top_learning_rate: Positive = 2e-3  # of the fit of the top model, which adam carries out
    top_epochs: Count = 15  # epochs of the top model on embeddings that are sent once
    # Epochs of joint training that follow; a fraction is a part of an epoch.
    joint_epochs: Annotated[float, Field(ge=0, le=10_000)] = 1.5
    joint_batch: Fraction = 0.25  # rows of a joint step, as a fraction of training.batch
    joint_rate: Positive = 2.0  # learning rate of the joint steps, as a multiple of the training's
    # Last learning rate of the joint steps, as a fraction of the first one; it falls as a cosine.
    joint_floor: Fraction = 0.05

    def epochs_of_fit(self, rows: int) -> int:
        """The epochs of the fit of a bottom model on ``rows`` rows; 0 without a fit."""
        if self.codes == "fixed":
            return 0
        return self.fit_epochs or (3 if rows > MANY_ROWS else 20)

    @property
    def epochs_together(self) -> float:
        """The joint epochs; 0 if the bottom models are fixed."""
        return 0.0 if self.codes == "fixed" else self.joint_epochs
