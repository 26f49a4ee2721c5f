"""Settings of the training with a local start."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from configs.table import ConfigTable, Count, Fraction, Positive

MANY_ROWS = 20_000  # above this number of rows, fewer epochs without other parties are enough
JOINT_EPOCHS = 1.5  # if the settings do not say how many


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
    # Epochs of the top model on embeddings that are sent once; absent: 15.
    top_epochs: Count | None = None
    # Epochs of joint training that follow; a fraction is a part of an epoch. Absent: 1.5.
    joint_epochs: Annotated[float, Field(ge=0, le=10_000)] | None = None
    joint_batch: Fraction = 0.25  # rows of a joint step, as a fraction of training.batch
    joint_rate: Positive = 2.0  # learning rate of the joint steps, as a multiple of the training's
    # Part of the joint steps in which the learning rate rises from 0, as a straight line.
    joint_rise: Annotated[float, Field(ge=0, lt=1)] = 0.25
    # Last learning rate of the joint steps, as a fraction of the largest one; it falls as a cosine.
    joint_floor: Fraction = 0.05

    def epochs_of_fit(self, rows: int) -> int:
        """The epochs of the fit of a bottom model on ``rows`` rows; 0 without a fit."""
        if self.codes == "fixed":
            return 0
        return self.fit_epochs or (3 if rows > MANY_ROWS else 20)

    def epochs_of_top(self, _rows: int) -> int:
        """The epochs of the fit of the top model on a number of rows."""
        return self.top_epochs or 15

    def epochs_together(self, *, perceptrons: bool) -> float:  # noqa: ARG002  for subclasses
        """The joint epochs; 0 if the bottom models are fixed.

        ``perceptrons`` says whether all bottom models are perceptrons.
        """
        if self.codes == "fixed":
            return 0.0
        return JOINT_EPOCHS if self.joint_epochs is None else self.joint_epochs


class ContinuedSettings(LocalStartSettings):
    """Training that goes on from a kept version: top model first, then few joint epochs.

    Only a party that is new in the federation fits its bottom model to codes of its rows.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"new_weights"})

    codes: Literal["auto", "svd", "patches", "projection"] = "auto"
    # Whether every part of the model starts from new weights, and earlier versions are erased at
    # the end: for columns that a party does not use any more.
    new_weights: bool = False
    # Epochs of joint training that follow; a fraction is a part of an epoch. Absent: 1.5.
    joint_epochs: Annotated[float, Field(gt=0, le=10_000)] | None = None


class FastStartSettings(LocalStartSettings):
    """Training with a local start, with the fewest round trips."""

    # Epochs of the fit; absent: 20, or 1 above 20,000 rows.
    fit_epochs: Count | None = None
    top_learning_rate: Positive = 1e-2  # of the fit of the top model, which adam carries out
    # Epochs of the top model on embeddings that are sent once; absent: 15, or 3 above 20,000 rows.
    top_epochs: Count | None = None
    # Epochs of joint training that follow; a fraction is a part of an epoch. Absent: 0 if every
    # bottom model is of kind mlp, else 1.5.
    joint_epochs: Annotated[float, Field(ge=0, le=10_000)] | None = None
    # Whether the active party keeps the embeddings of all rows, so that a request to forget rows
    # sends no embedding. Needs codes = 'fixed' and preprocessing = 'declared': then the embedding
    # of a row depends on no other row.
    keep_embeddings: bool = False

    def epochs_of_fit(self, rows: int) -> int:
        """The epochs of the fit of a bottom model on ``rows`` rows; 0 without a fit."""
        few = rows > MANY_ROWS and self.fit_epochs is None and self.codes != "fixed"
        return 1 if few else super().epochs_of_fit(rows)

    def epochs_of_top(self, rows: int) -> int:
        """The epochs of the fit of the top model on ``rows`` rows."""
        return self.top_epochs or (3 if rows > MANY_ROWS else 15)

    def epochs_together(self, *, perceptrons: bool) -> float:
        """The joint epochs; absent in the settings, 0 for perceptrons, which need none."""
        if perceptrons and self.joint_epochs is None:
            return 0.0
        return super().epochs_together(perceptrons=perceptrons)
