"""Modes of noise on the tensors that parties send; only some have an (ε, δ) guarantee.

`parties/vertical/privacy/claims.py` states which mode has which guarantee, and why. A mode is on
when its table is in the agreement.
"""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.table import ConfigTable, Count, Positive

Multiplier: TypeAlias = Annotated[float, Field(ge=0.05, le=1e6)]  # below, ε is in the hundreds
Delta: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class EmbedOnce(ConfigTable):
    """Frozen bottom models: the embedding of unchanged features is sent once, with noise.

    A row whose features change is released again, also by a prediction, which raises its ε. No
    gradient is sent. The weights of the bottom models depend only on the seed, so they contain
    no information about any row. Each passive party's features have an (ε, δ) guarantee against the
    active party, for any number of epochs.
    """

    clip: Positive = 1.0  # largest Euclidean norm C of a row's embedding
    noise_multiplier: Multiplier  # multiplier z: the noise has standard deviation z C
    delta: Delta = 1e-5  # δ; the party stops unless δ is below 1 / (number of common rows)
    # Definition of neighbouring data sets. replace_one: the features of one row are replaced by any
    # other features (sensitivity 2 C). zero_out: the embedding of one row is replaced by zeros
    # (sensitivity C).
    relation: Literal["replace_one", "zero_out"] = "replace_one"
    budget: Positive | None = None  # largest total ε of all releases of a row; absent: no limit


class EmbedTrain(ConfigTable):
    """Gaussian noise on the embeddings of every batch, while the bottom models are trained.

    This mode has no (ε, δ) guarantee, because the bottom models are trained on the raw rows.
    """

    sigma: Positive  # standard deviation of the noise on each element
    clip: Positive | None = None  # largest Euclidean norm of a row's embedding; absent: no clipping
    # Number of releases of one row after which the party stops; absent: no limit.
    visits: Count | None = None


class GradNoise(ConfigTable):
    """Gaussian noise on the gradients that the active party sends; no (ε, δ) guarantee."""

    sigma: Positive  # standard deviation of the noise on each element
    clip: Positive | None = None  # largest Euclidean norm of a row's gradient; absent: no clipping
    # Number of releases of one row after which the party stops; absent: no limit.
    visits: Count | None = None


class LabelDp(ConfigTable):
    """Randomised response: training and validation labels are randomly flipped once, before use.

    The active party's messages depend only on the flipped labels, so the labels have a pure ε
    guarantee.
    """

    epsilon: Annotated[float, Field(gt=0, le=50)]  # ε of the labels
    budget: Positive | None = None  # largest total ε of all releases of a label; absent: no limit


class PrivacySettings(ConfigTable):
    """Modes of noise; a mode is on when its table is in the agreement."""

    embed_once: EmbedOnce | None = None
    embed_train: EmbedTrain | None = None
    grad_noise: GradNoise | None = None
    label_dp: LabelDp | None = None

    @property
    def of_embeddings(self) -> dict[str, Any]:
        """Settings of ``embed_once`` and ``embed_train``, except ``budget`` and ``visits``."""
        limits: dict[str, Any] = {"embed_once": {"budget"}, "embed_train": {"visits"}}
        modes = {"embed_once", "embed_train"}
        return self.model_dump(mode="json", include=modes, exclude=limits, exclude_none=True)

    @model_validator(mode="after")
    def _modes_are_compatible(self) -> Self:
        if self.embed_once and (self.embed_train or self.grad_noise):
            other = "embed_train" if self.embed_train else "grad_noise"
            raise ValueError(
                f"embed_once sends each embedding once and sends no gradient, so {other} cannot "
                f"be used: remove {other}"
            )
        return self
