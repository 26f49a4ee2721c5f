"""The agreement of a run that teaches a language model: a server, and clients with texts."""

from math import ceil
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.agreement import Limits, Seconds
from configs.federated import Asked, Federated, Teaching
from configs.language_unlearning import PrimalDualPlan, TextUnlearning
from configs.table import Count, Fraction, Name, Positive, Table

Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def _unset(value: object) -> bool:
    return value in (None, False)


class BaseModel(Table):
    """The model that everybody has before the first round, in a folder of its own."""

    digest: Digest | None = None  # `vfl language digest FOLDER`; simulations may leave it out
    precision: Literal["float32", "bfloat16"] = "float32"
    quantised: Literal["none", "int8", "int4"] = "none"  # bitsandbytes, on a GPU
    chat: bool = False  # whether questions are put into the tokenizer's chat template
    length: Annotated[int, Field(ge=8, le=1_000_000)] = 512  # tokens of a text, at most


class Lora(Table):
    """Low-rank adapters, and how the server merges them."""

    kind: Literal["lora"]
    rank: Count = 32
    alpha: Count = 64
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    modules: Annotated[tuple[str, ...], Field(min_length=1)] = SEVEN
    # The mean of the factors; of their products, cut to the rank; or of B, with A as it was drawn.
    merging: Literal["factors", "product_svd", "freeze_A"] = "factors"


class FullTuning(Table):
    """All weights are taught, and cross."""

    kind: Literal["full"]


Tuning: TypeAlias = Annotated[Lora | FullTuning, Field(discriminator="kind")]


class OwnTexts(Table):
    """Every client brings its own texts."""

    kind: Literal["own"] = "own"


class DealtTexts(Table):
    """One corpus: dealt in equal shards at random, or whole authors to clients."""

    kind: Literal["shards", "authors"]


class TextsAtOne(Table):
    """The texts that will be forgotten lie at one client, the others are dealt to all."""

    kind: Literal["one", "apart"]  # apart: that client holds no other text (MUSE)
    client: Name


TextPartition: TypeAlias = Annotated[
    OwnTexts | DealtTexts | TextsAtOne, Field(discriminator="kind")
]


class TextRounds(Teaching):
    """Federated fine-tuning; the defaults are Oblivionis' (paper 000), but for who takes part."""

    rounds: Count = 10
    epochs: Count = 5
    batch: Count = 32
    learning_rate: Positive = 8e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    optimiser: Literal["adamw", "sgd"] = "adamw"
    clip: Positive | None = 1.0  # norm of a step's gradient
    # Both spare memory and cost time. They are agreed on: all set them before the run, since
    # it does not go on under another agreement. What is not set stands in no digest.
    # Rows of a step that are computed at a time, with as many that stay; None: all.
    micro_batch: Count | None = Field(default=None, exclude_if=_unset)
    # Whether only what goes into each layer is kept, and the rest computed again on the way back.
    checkpointing: bool = Field(default=False, exclude_if=_unset)


class TextRequest(Asked):
    """Which texts must be forgotten, and when that is asked."""

    rows: Literal["all", "flagged"] = "all"  # flagged: those that the corpus or the seat names
    round: Count | None = None  # of the training, after which it comes; None: after the last

    @property
    def leaver(self) -> str | None:
        """See ``Asked``."""
        return None if self.rows == "flagged" else super().leaver

    @model_validator(mode="after")
    def _not_everything(self) -> Self:
        if self.client is None and self.rows == "all" and self.fraction == 1:
            raise ValueError('name the client that leaves, or rows = "flagged", or a fraction')
        return self


class TextEvaluation(Table):
    """What is measured beside the clients' own figures."""

    benchmark: Literal["none", "tofu", "muse"] = "none"  # its files are named in the server's seat
    rows: Count | None = None  # of every set of questions, at most; None: all
    tokens: Count = 200  # that an answer may have
    batch: Count = 32  # questions at a time
    relearn: Annotated[int, Field(ge=0)] = 0  # steps of the relearning attack; 0: it is not made
    relearn_share: Fraction = 0.05  # of the forgotten texts that the attacker has
    relearn_rate: Positive | None = None  # None: the training's
    quantise: bool = False  # also measure each model rounded to 8 and to 4 bits

    @model_validator(mode="after")
    def _attacks_have_questions(self) -> Self:
        if self.benchmark == "none" and (self.relearn or self.quantise):
            asked = "relearn" if self.relearn else "quantise"
            raise ValueError(
                f"evaluation.{asked} is measured with a benchmark, and evaluation.benchmark is "
                "none: legal are tofu, muse"
            )
        return self


class TextLimits(Limits):
    """A server is silent while it measures a model, and a client while it learns."""

    idle_seconds: Seconds = 14_400.0


class Language(Federated):
    """One run, as all parties must describe it."""

    mode: Literal["llm"]
    model: BaseModel = BaseModel()
    tuning: Tuning = Lora(kind="lora")
    partition: TextPartition = OwnTexts()
    # Of a client's unflagged texts that nobody learns from, for tests and as a reference.
    held: Annotated[float, Field(ge=0, lt=1)] = 0.05
    training: TextRounds = TextRounds()
    limits: TextLimits = TextLimits()
    unlearn: tuple[TextRequest, ...] = ()
    unlearning: TextUnlearning = TextUnlearning()
    evaluation: TextEvaluation = TextEvaluation()

    @property
    def architecture(self) -> dict[str, Any]:
        """What a trained model must have in common with those who use it, as JSON."""
        return self.model_dump(mode="json", include={"federation", "model", "tuning"})

    @model_validator(mode="after")
    def _base_is_named(self) -> Self:
        apart = [name for name, each in self.parties.items() if each.role == "client"]
        if apart and self.model.digest is None:
            raise ValueError(
                "model.digest says which model all begin with; read it off the folder: "
                "vfl language digest FOLDER"
            )
        return self

    @model_validator(mode="after")
    def _requests_come_in_time(self) -> Self:
        for each in self.unlearn:
            if each.round is not None and each.round > self.training.rounds:
                raise ValueError(
                    f"request {each.name!r} comes after round {each.round}, and the training has "
                    f"{self.training.rounds}"
                )
        if isinstance(self.partition, TextsAtOne) and self.partition.client not in self.spokes:
            raise ValueError(f"partition.client {self.partition.client!r} is no client")
        return self

    @model_validator(mode="after")
    def _sums_are_enough(self) -> Self:
        sums, tuning = self.aggregation, self.tuning
        if sums.kind == "none":
            return self
        if isinstance(self.partition, TextsAtOne):
            raise ValueError(
                f"partition {self.partition.kind!r} has one client forget, whose update would be "
                f"the difference of two sums, which aggregation.kind = {sums.kind!r} hides"
            )
        if isinstance(tuning, Lora) and tuning.merging == "product_svd":
            raise ValueError(
                "tuning.merging 'product_svd' needs single clients' factors, which "
                f"aggregation.kind = {sums.kind!r} hides; legal with it: factors, freeze_A"
            )
        if self.unlearn and any(each.client is not None for each in self.unlearn):
            raise ValueError(
                f"aggregation.kind = {sums.kind!r} hides single updates, and a round in which one "
                "client forgets beside the same round without it would show that client's: "
                'name no client in the requests (rows = "flagged")'
            )
        for stage in self.unlearning.stages() if self.unlearn else ():
            share = self.training.share if stage.share is None else stage.share
            taught = ceil(share * len(self.spokes) - 1e-9)
            if taught < sums.least or (sums.keepers and share < 1):
                raise ValueError(
                    f"share {share} of a way to unlearn has {taught} of {len(self.spokes)} clients "
                    f"take part in a round; sums need aggregation.least = {sums.least}, and all "
                    "where aggregation.keepers are named"
                )
        plans = self.unlearning.chosen() if self.unlearn else []
        if any(plan.who == "leaving" for plan in plans):
            raise ValueError(
                "who = 'leaving' has few clients or one make a round alone, whose update "
                f"aggregation.kind = {sums.kind!r} hides: who = 'all'"
            )
        return self

    @model_validator(mode="after")
    def _products_have_no_memory(self) -> Self:
        if not (isinstance(self.tuning, Lora) and self.tuning.merging == "product_svd"):
            return self
        ways = self.unlearning
        plans = [ways.grad_ascent, ways.grad_diff, ways.npo, ways.simnpo, ways.rmu]
        for rule in (self.training.rule, *(each.rule for each in plans)):
            if rule is not None and (rule.kind != "fedavg" or rule.rate not in (None, 1.0)):
                raise ValueError(
                    "tuning.merging 'product_svd' turns the factors in every round, which momentum "
                    "and moments do not follow: rule = {kind = 'fedavg'}, rate 1"
                )
        if any("rule" in each.settings for each in ways.also):
            raise ValueError("tuning.merging 'product_svd' goes with no rule but fedavg")
        return self

    @model_validator(mode="after")
    def _whole_weights_are_rounded(self) -> Self:
        if self.evaluation.quantise and self.model.quantised != "none":
            raise ValueError(
                f"evaluation.quantise rounds weights, and model.quantised = "
                f"{self.model.quantised!r} has none left to round: evaluation.quantise = false, or "
                'model.quantised = "none"'
            )
        return self

    @model_validator(mode="after")
    def _the_threshold_has_a_source(self) -> Self:
        priced = [p for p in self.unlearning.chosen() if isinstance(p, PrimalDualPlan)]
        if any(plan.threshold is None for plan in priced) and not self.held and self.unlearn:
            raise ValueError(
                "primal-dual takes its threshold from texts that are held apart, and held is 0: "
                "held = 0.05, or unlearning.primal_dual.threshold"
            )
        return self
