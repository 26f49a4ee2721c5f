"""Noise on what crosses the wire: the modes that carry an (ε, δ) and those that carry none.

Which is which, and why, is worked out in `parties/vertical/privacy/claims.py`. A mode is on when its table
stands in the agreement.
"""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.table import Count, Positive, Table

Multiplier: TypeAlias = Annotated[float, Field(ge=0.05, le=1e6)]  # below, ε is in the hundreds
Delta: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class EmbedOnce(Table):
    """Frozen bottoms; every row's clipped, noised embedding is released once, and no gradient.

    The bottoms are drawn from the seed, so they know nothing of any row: each passive party's
    features have an (ε, δ) against the active party, for any number of epochs.
    """

    clip: Positive = 1.0  # C: largest Euclidean norm of a row's embedding
    noise_multiplier: Multiplier  # z: the noise of each number has standard deviation z C
    delta: Delta = 1e-5  # a party refuses to run where it is not below 1 / common rows
    # Replace one: the row's features become any others, sensitivity 2 C. Zero out: they become
    # nothing (an embedding of zeros), sensitivity C.
    relation: Literal["replace_one", "zero_out"] = "replace_one"
    budget: Positive | None = None  # ε that all releases of a row may reach; None: no end


class EmbedTrain(Table):
    """Gaussian noise on the embeddings of every visit, while the bottoms are trained.

    No (ε, δ) goes with it: the bottoms are trained on the raw rows.
    """

    sigma: Positive  # standard deviation of the noise of each number
    clip: Positive | None = None  # largest Euclidean norm of a row's embedding; None: any
    visits: Count | None = None  # releases of one row after which a party stops; None: no end


class GradNoise(Table):
    """Gaussian noise on the gradients that the active party sends; no (ε, δ) goes with it."""

    sigma: Positive
    clip: Positive | None = None  # largest Euclidean norm of a row's gradient; None: any
    visits: Count | None = None


class LabelDp(Table):
    """Randomised response: training and validation labels are flipped once, before any use.

    Everything that the active party sends follows from the flipped labels: pure ε for the labels.
    """

    epsilon: Annotated[float, Field(gt=0, le=50)]
    budget: Positive | None = None  # ε that all releases of a label may reach; None: no end


class Privacy(Table):
    """The modes that are on; none of them unless named."""

    embed_once: EmbedOnce | None = None
    embed_train: EmbedTrain | None = None
    grad_noise: GradNoise | None = None
    label_dp: LabelDp | None = None

    @property
    def of_embeddings(self) -> dict[str, Any]:
        """How embeddings leave a passive party, in prediction as in training, as JSON."""
        limits: dict[str, Any] = {"embed_once": {"budget"}, "embed_train": {"visits"}}
        modes = {"embed_once", "embed_train"}
        return self.model_dump(mode="json", include=modes, exclude=limits, exclude_none=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.embed_once and (self.embed_train or self.grad_noise):
            other = "embed_train" if self.embed_train else "grad_noise"
            raise ValueError(
                f"embed_once sends each embedding once and no gradient: {other} cannot go with it"
            )
        return self
