"""The settings of unlearning: one table a method, and what is compared."""

import math
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from configs.table import Count, Fraction, Name, Positive, Table

Top: TypeAlias = Literal["keep", "shrink", "fresh"]  # what becomes of the top where bottoms shrink


def _none_if_false(value: Any) -> Any:
    """TOML has no word for nothing."""
    return None if value is False else value


class Adaptive(Table):
    """How the step sizes follow the change of the parameters (FedORA, Eq. 30-33).

    With α = 1 they shrink whenever an iteration moves more than the one before: the noise of the
    last iterates is what keeps a model away from Retrain (docs/decisions.md).
    """

    slow: Positive = 0.5  # β: below this ratio of changes the steps grow
    fast: Positive = 1.0  # α: above it they shrink
    growth: Annotated[float, Field(gt=1)] = 1.05  # κ_i
    decay: Fraction = 0.7  # κ_d
    largest: Positive = 10.0  # times the initial step sizes
    smallest: Positive = 0.001

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not (self.slow < self.fast and self.decay < 1 and self.smallest <= 1 <= self.largest):
            raise ValueError("needs slow < fast, decay < 1 and smallest <= 1 <= largest")
        return self


class Anneal(Table):
    """How the primal step goes up and down over all sub-steps: it rises, stays, falls as a cosine.

    High steps lose what the start still remembers; the low ones at the end leave the noise that
    training leaves.
    """

    rise: Annotated[float, Field(ge=0, lt=1)] = 0.15  # part of the sub-steps
    stay: Annotated[float, Field(ge=0, lt=1)] = 0.5  # until this part of them
    lowest: Fraction = 0.2  # part of primal_step at the beginning and at the end

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.rise > self.stay:
            raise ValueError("the step stays until later than it rises: needs rise <= stay")
        return self

    def factor(self, progress: float) -> float:
        """Part of ``primal_step`` at ``progress``, from 0 to 1."""
        if progress < self.rise:
            return max(self.lowest, progress / self.rise)
        if progress < self.stay:
            return 1.0
        fallen = (progress - self.stay) / (1.0 - self.stay)
        return self.lowest + (1.0 - self.lowest) * (1.0 + math.cos(math.pi * fallen)) / 2.0


class Fedora(Table):
    """Primal-dual unlearning (FedORA, Algorithms 1 and 2).

    The defaults depart from the paper where docs/threshold.md measured that they come nearer to
    Retrain; ``start = "original"``, ``primal = "plain"``, ``anneal = false``, ``calibrate = false``
    and a table ``adaptive`` are the paper's own.
    """

    # γ: the level of held-out rows of D_u's classes under the original (`heldout`) or, where that
    # is lower, the model of the moment (`present`); a small reference's (`proxy`); near the top.
    policy: Literal["present", "heldout", "proxy", "uniform"] = "present"
    margin: Annotated[float, Field(ge=0)] = (
        2.0  # standard errors: γ stays so many below a held-out level; `calibrate` heeds more
    )
    dual: Literal["scalar", "literal"] = "scalar"
    weight: Positive = 2.0  # ω
    iterations: Count = 20  # K
    retain_share: Annotated[float, Field(ge=0, le=1)] = 0.25  # δ
    batch: Count | None = None  # B; None: the training's
    # τ; None: twice the training's learning rate, or 0.1 in plain steps.
    primal_step: Positive | None = None
    dual_step: Positive = 0.1  # σ
    proximal: Annotated[float, Field(ge=0)] = 0.0  # ρ: above 0 it holds on to what θ₀ remembers
    price_cap: Positive = 1.0  # largest Ω
    score_rows: Count | None = 1024  # most rows of D_u in one iteration; None: all
    check_every: Count = 7  # iterations between two looks at the validation rows
    utility_loss: Positive = 0.05  # validation accuracy that may be lost before it rolls back
    tolerance: Positive = 1e-3
    # The direction of Eq. 34 moves the parameters by itself, or through the training's optimiser.
    primal: Literal["plain", "optimiser"] = "optimiser"
    anneal: Annotated[Anneal | None, BeforeValidator(_none_if_false)] = Anneal()  # false: off
    adaptive: Annotated[Adaptive | None, BeforeValidator(_none_if_false)] = None  # false: off
    calibrate: bool = True  # in the end, make the top as sure of held-out rows as the original's
    score: bool = True  # false: Ω stays 0, so nothing pushes D_u out (the paper's "w/o UL")
    extrapolate: bool = False  # ascend the dual at 2 Θ_k - Θ_(k-1), as primal-dual hybrid gradient
    # Where the first iteration begins: at a copy that every party kept after the part ``early`` of
    # its training, at the original, at the original with a fresh top, or with all bottoms moved by
    # ``shrink`` towards a fresh initialisation.
    start: Literal["early", "original", "fresh-top", "shrink"] = "early"
    early: Fraction = 0.2
    shrink: Fraction = 0.3
    shrink_top: Top = "keep"  # of the start ``shrink``
    entropy_factor: Positive = 0.75  # policy `proxy` asks for this part of its mean entropy
    reference_share: Fraction = 0.1  # of D_r, for policy `proxy`
    reference_epochs: Count = 10
    reference_batch: Count = 32
    reference_learning_rate: Positive = 5e-3

    def first_step(self, learning_rate: float) -> float:
        """Return τ to begin with, where training has this learning rate."""
        if self.primal_step is not None:
            return self.primal_step
        return 2 * learning_rate if self.primal == "optimiser" else 0.1

    @model_validator(mode="after")
    def _score_is_priced(self) -> Self:
        if self.dual == "literal" and not (self.score and not self.extrapolate):
            raise ValueError("score = false and extrapolate = true go with dual = 'scalar'")
        return self

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.anneal and self.adaptive:
            raise ValueError("adaptive and anneal both move the primal step: set one to false")
        return self


class FineTune(Table):
    """Baseline: go on training on the rows that stay."""

    learning_rate: Positive = 1e-3
    epochs: Count = 2


class Ascent(Table):
    """Baseline: gradient ascent on the rows to forget."""

    learning_rate: Positive = 0.005
    steps: Count = 10
    clip: Positive = 1.0  # norm of the gradient of all parties together


class Relabel(Table):
    """Baseline: teach wrong labels for the rows to forget, beside the rows that stay."""

    learning_rate: Positive = 1e-3
    epochs: Count = 2


class TopOnly(Table):
    """Baseline: a fresh top on embeddings of the rows that stay, which cross once."""

    learning_rate: Positive = 2e-3
    epochs: Count = 20


class ShrinkPerturb(Table):
    """Baseline: move every bottom towards a fresh initialisation, then fine-tune."""

    share: Fraction = 0.3  # s: θ <- (1 - s) θ + s θ_fresh
    top: Top = "keep"
    learning_rate: Positive = 1e-3
    epochs: Count = 6


class IcoLike(Table):
    """Baseline: take one estimated contribution of D_u out, then correct on a part of D_r."""

    step: Positive = 20.0  # η_c: the contribution is (η_c n_u / n) ∇CE(D_u)
    limit: Positive = 0.05  # r: its norm is at most r times that of all parameters
    share: Fraction = 0.25  # ν: of D_r, fixed
    steps: Count = 100  # K
    learning_rate: Positive = 0.05  # of plain SGD


class Cvfu(Table):
    """Baseline for a sum of votes: gradients at a cached sum, from which D_u is gone."""

    learning_rate: Positive = 0.1  # η of epoch i is this / √i
    batch: Count = 64
    epochs: Count = 8  # each passes over D_r twice
    ascent: Annotated[float, Field(ge=0)] = 1.0  # of ∇CE(D_u), subtracted in the first step
    patience: Count = 3  # epochs without progress
    noise: Annotated[float, Field(ge=0)] = 0.0  # deviation, added to gradients of the sum
    offline: tuple[Name, ...] = ()  # passive parties that take no part; their change is estimated


Baseline: TypeAlias = Literal[
    "fine-tune", "gradient-ascent", "relabel", "top-only", "shrink-perturb", "ico-like", "cvfu"
]
MethodName: TypeAlias = Literal["fedora", "newton-cg", "sharded", "retrain-paired"] | Baseline
ALWAYS: tuple[Baseline, ...] = ("fine-tune", "relabel")  # trivial, so in every table


class Unlearning(Table):
    """How rows are forgotten, and what the result is compared with."""

    method: MethodName = "fedora"  # whose model the run ends with
    compare: tuple[Baseline, ...] = (  # beside the Retrains, in this order
        "fine-tune",
        "gradient-ascent",
        "relabel",
        "top-only",
        "shrink-perturb",
        "ico-like",
    )
    fedora: Fedora = Fedora()
    fine_tune: FineTune = FineTune()
    ascent: Ascent = Ascent()
    relabel: Relabel = Relabel()
    top_only: TopOnly = TopOnly()
    shrink_perturb: ShrinkPerturb = ShrinkPerturb()
    ico_like: IcoLike = IcoLike()
    cvfu: Cvfu = Cvfu()
    retrains: Annotated[int, Field(ge=2, le=10)] = 3  # independent ones

    @model_validator(mode="after")
    def _trivial_rows_are_there(self) -> Self:
        lacking = [name for name in ALWAYS if name not in (self.method, *self.compare)]
        if lacking and self.method != "sharded":  # no baseline works on shards
            raise ValueError(
                f"compare lacks {', '.join(lacking)}: every table carries the trivial baselines"
            )
        if len(set(self.compare)) < len(self.compare):
            raise ValueError("compare names a method twice")
        return self
