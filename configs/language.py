"""Agreement of a run in the LLM mode: clients fine-tune a language model on texts."""

from functools import cache
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, create_model, model_validator

from configs.agreement import LimitSettings, Seconds
from configs.config_file import ConfigFile
from configs.federated import FederatedAgreement, RequestBase, RoundSettings
from configs.language_party_settings import ModelPartySettings
from configs.language_unlearning import ServerRuleSettings, TextUnlearning
from configs.table import ConfigTable, Count, Fraction, Name, Positive

Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def _unset(value: object) -> bool:
    return value in (None, False)


class BaseModelSettings(ConfigTable):
    """Base model; every party stores the base model in a folder before the run."""

    # Digest of the base model, from `vfl language digest FOLDER`; optional in a simulation.
    digest: Digest | None = None
    precision: Literal["float32", "bfloat16"] = "float32"  # type of the weights
    # Quantisation of the weights; int8 and int4 need a GPU.
    quantised: Literal["none", "int8", "int4"] = "none"
    chat: bool = False  # whether questions are formatted with the tokenizer's chat template
    length: Annotated[int, Field(ge=8, le=1_000_000)] = 512  # largest number of tokens of a text


class LoraSettings(ConfigTable):
    """Settings of the low-rank adapters, and the rule by which the server aggregates adapters."""

    kind: Literal["lora"]
    rank: Count = 32  # rank of the adapters
    alpha: Count = 64  # scale α: the adapters are multiplied by α / rank
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05  # dropout probability before the adapters
    modules: Annotated[tuple[str, ...], Field(min_length=1)] = SEVEN  # modules with adapters
    # How adapters are averaged. factors: mean of A and mean of B. product_svd: mean of the products
    # B A, reduced to the rank of the adapters. freeze_A: mean of B; A keeps its initial value.
    merging: Literal["factors", "product_svd", "freeze_A"] = "factors"


class FullTuning(ConfigTable):
    """Full tuning: clients train all weights of the model, without adapters."""

    kind: Literal["full"]


Tuning: TypeAlias = Annotated[LoraSettings | FullTuning, Field(discriminator="kind")]


class OwnTexts(ConfigTable):
    """Every client reads its own texts."""

    kind: Literal["own"] = "own"


class DealtTexts(ConfigTable):
    """One corpus, divided at random among clients: in equal shards, or author by author."""

    kind: Literal["shards", "authors"]


class TextsAtOne(ConfigTable):
    """One client holds all texts to forget; the other texts are divided among clients."""

    # one: the client with the texts to forget also holds other texts. apart: this client holds no
    # other text (MUSE).
    kind: Literal["one", "apart"]
    client: Name  # client that holds the texts to forget


TextPartition: TypeAlias = Annotated[
    OwnTexts | DealtTexts | TextsAtOne, Field(discriminator="kind")
]


class TextRoundSettings(RoundSettings):
    """Settings of fine-tuning; the defaults are those of Oblivionis, except for ``share``.

    ``micro_batch`` and ``checkpointing`` save memory and make training slower. All parties must
    set both keys to the same values. The agreement's digest depends on these keys; a key that is
    not set does not change the digest.
    """

    rounds: Count = 10
    epochs: Count = 5  # local epochs of a client in a round
    batch: Count = 32
    learning_rate: Positive = 8e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    optimiser: Literal["adamw", "sgd"] = "adamw"  # optimiser of the clients
    clip: Positive | None = 1.0  # largest norm of a step's gradient
    # Rows of a batch that are processed together; a smaller number saves memory. Absent: all rows
    # of the batch.
    micro_batch: Count | None = Field(default=None, exclude_if=_unset)
    # Whether the backward pass computes activations again instead of storing them, to save memory.
    checkpointing: bool = Field(default=False, exclude_if=_unset)


class TextRequest(RequestBase):
    """A deletion request: the texts to forget, and the round after which they are unlearned."""

    # all: every text of the client. flagged: texts that the corpus or the party settings flag.
    rows: Literal["all", "flagged"] = "all"
    # Training round after which the texts are unlearned; absent: the last round.
    round: Count | None = None

    @property
    def leaver(self) -> str | None:
        """Name of the client whose texts are all forgotten; None if there is no such client."""
        return None if self.rows == "flagged" else super().leaver

    @model_validator(mode="after")
    def _some_texts_remain(self) -> Self:
        if self.client is None and self.rows == "all" and self.fraction == 1:
            raise ValueError(
                "a request must not forget all texts of all clients: set the key 'client', or "
                "rows = \"flagged\", or 'fraction' below 1"
            )
        return self


class ListedTextRequest(TextRequest):
    """A request after the run, whose texts the client names in a list that no other party sees."""

    has_list: ClassVar[bool] = True

    @property
    def leaver(self) -> None:
        """None: the request is for some texts of the client."""
        return


class TextEvaluation(ConfigTable):
    """Measurements by the server, in addition to the measurements of the clients."""

    # Benchmark that the server runs; the server's party settings name its files.
    benchmark: Literal["none", "tofu", "muse"] = "none"
    rows: Count | None = None  # largest number of questions per set; absent: all
    tokens: Count = 200  # largest number of tokens of an answer
    batch: Count = 32  # number of questions per batch
    relearn: Annotated[int, Field(ge=0)] = 0  # steps of the relearning attack; 0: no attack
    relearn_share: Fraction = 0.05  # fraction of the forgotten texts that the attacker has
    # Learning rate of the attack; absent: the value of training.learning_rate.
    relearn_rate: Positive | None = None
    quantise: bool = False  # also measure each model rounded to 8 bits and to 4 bits

    @model_validator(mode="after")
    def _attacks_have_a_benchmark(self) -> Self:
        if self.benchmark == "none" and (self.relearn or self.quantise):
            asked = "relearn" if self.relearn else "quantise"
            raise ValueError(
                f"evaluation.{asked} needs a benchmark: set evaluation.benchmark to 'tofu' or "
                "'muse'"
            )
        return self


class TextLimits(LimitSettings):
    """Timeouts and size limits; measuring a model can take hours, so ``idle_seconds`` is long."""

    # Seconds that a client waits for the server's next message.
    idle_seconds: Seconds = 14_400.0


class LanguageAgreement(FederatedAgreement):
    """Agreement of a run in the LLM mode: the file that all parties share."""

    mode: Literal["llm"]
    model: BaseModelSettings = BaseModelSettings()
    tuning: Tuning = LoraSettings(kind="lora")  # which weights are trained
    partition: TextPartition = OwnTexts()  # how simulated clients get their texts
    # Fraction of a client's unflagged texts that serve as test and reference texts; no model is
    # trained on these texts.
    test_share: Annotated[float, Field(ge=0, lt=1)] = 0.05
    training: TextRoundSettings = TextRoundSettings()
    limits: TextLimits = TextLimits()
    unlearn: tuple[TextRequest, ...] = ()
    unlearning: TextUnlearning
    evaluation: TextEvaluation = TextEvaluation()

    @property
    def variants(self) -> frozenset[str]:
        """The names of methods that also run with other settings."""
        return frozenset(each.name for each in self.unlearning.variants)

    def request(
        self, name: str, client: str | None, classes: tuple[str, ...], fraction: float, seed: int
    ) -> TextRequest:
        """Return a request that was raised after the training; see ``FederatedAgreement``.

        Raises:
            ValueError: the request names classes, but texts have none.
        """
        if classes:
            raise ValueError("texts have no classes")
        return TextRequest(name=name, client=client, fraction=fraction, seed=seed)

    def listed_request(self, name: str, client: str) -> ListedTextRequest:
        """Return a request whose texts only the client knows; see ``FederatedAgreement``."""
        return ListedTextRequest(name=name, client=client)

    @property
    def architecture(self) -> dict[str, Any]:
        """Settings, as JSON, that a run must share with every saved model that the run loads."""
        return self.model_dump(mode="json", include={"federation", "model", "tuning"})

    @model_validator(mode="after")
    def _base_model_has_a_digest(self) -> Self:
        apart = [name for name, each in self.parties.items() if each.role == "client"]
        if apart and self.model.digest is None:
            raise ValueError(
                "model.digest is missing: set model.digest to the digest of the base model, which "
                "the command vfl language digest FOLDER prints"
            )
        return self

    @model_validator(mode="after")
    def _requests_come_in_time(self) -> Self:
        for each in self.unlearn:
            if each.round is not None and each.round > self.training.rounds:
                raise ValueError(
                    f"request {each.name!r} has round = {each.round}, but training.rounds is only "
                    f"{self.training.rounds}: choose a round of the training"
                )
        if isinstance(self.partition, TextsAtOne) and self.partition.client not in self.spokes:
            raise ValueError(
                f"partition.client {self.partition.client!r} is not a client: name a client of the "
                "agreement"
            )
        return self

    @model_validator(mode="after")
    def _secure_aggregation_suffices(self) -> Self:
        sums, tuning = self.aggregation, self.tuning
        if sums.kind == "none":
            return self
        if isinstance(self.partition, TextsAtOne):
            raise ValueError(
                f"with partition.kind = {self.partition.kind!r} only one client has texts to "
                "forget, so the server could compute this client's update, although "
                f"aggregation.kind = {sums.kind!r} must hide it: change partition.kind or "
                "aggregation.kind"
            )
        if isinstance(tuning, LoraSettings) and tuning.merging == "product_svd":
            raise ValueError(
                "tuning.merging 'product_svd' needs the factors of each client, but with "
                f"aggregation.kind = {sums.kind!r} the server receives only their sum: set "
                "tuning.merging to 'factors' or 'freeze_A'"
            )
        if self.unlearn and any(each.client is not None for each in self.unlearn):
            raise ValueError(
                f"aggregation.kind = {sums.kind!r} must hide single updates, but a request that "
                "names a client reveals that client's update: remove the key 'client' from all "
                'requests, and set rows = "flagged"'
            )
        for stage in self.unlearning.stages() if self.unlearn else ():
            share = self.training.share if stage.share is None else stage.share
            chosen = ceil(share * len(self.spokes) - 1e-9)
            if chosen < sums.min_contributors or (sums.key_holders and share < 1):
                raise ValueError(
                    f"with share = {share} only {chosen} of {len(self.spokes)} clients take part "
                    "in a round of unlearning; with secure aggregation a round needs at least "
                    f"{sums.min_contributors} clients (aggregation.min_contributors), or all "
                    "clients if aggregation.key_holders is set: increase share"
                )
        plans = self.unlearning.chosen() if self.unlearn else []
        if any(plan.participants == "leaving" for plan in plans):
            raise ValueError(
                "with participants = 'leaving' a round may have a single client, whose update "
                f"aggregation.kind = {sums.kind!r} must hide: choose participants = 'all'"
            )
        return self

    @model_validator(mode="after")
    def _products_have_no_momentum(self) -> Self:
        if not (isinstance(self.tuning, LoraSettings) and self.tuning.merging == "product_svd"):
            return self
        plan = self.unlearning
        tables = [plan.table(name) for name in plan.methods()]
        rules = [each.rule for each in tables if isinstance(each, ServerRuleSettings)]
        for rule in (self.training.rule, *rules):
            if rule is not None and (rule.kind != "fedavg" or rule.rate not in (None, 1.0)):
                raise ValueError(
                    "tuning.merging 'product_svd' replaces the factors in every round, so the "
                    "server cannot use momentum or moments of earlier rounds: set rule.kind = "
                    "'fedavg' and rule.rate = 1"
                )
        if any("rule" in each.settings for each in plan.variants):
            raise ValueError(
                "tuning.merging 'product_svd' does not allow variants with the key 'rule': remove "
                "the key 'rule' from the settings of all variants"
            )
        return self

    @model_validator(mode="after")
    def _rounded_weights_are_whole(self) -> Self:
        if self.evaluation.quantise and self.model.quantised != "none":
            raise ValueError(
                "evaluation.quantise rounds weights, but with model.quantised = "
                f"{self.model.quantised!r} the weights are already rounded: set "
                'evaluation.quantise = false or model.quantised = "none"'
            )
        return self

    @model_validator(mode="after")
    def _methods_have_what_they_need(self) -> Self:
        for _, table in self.unlearning.tables():
            table.check(self)
        return self


LanguageConfig: TypeAlias = ConfigFile[LanguageAgreement, ModelPartySettings]


@cache
def language_agreement(unlearning: type[TextUnlearning]) -> type[LanguageAgreement]:
    """Build the class of an agreement whose table [unlearning] is of the class ``unlearning``."""
    return create_model(
        "LanguageAgreement",
        __base__=LanguageAgreement,
        __doc__=LanguageAgreement.__doc__,
        unlearning=(unlearning, unlearning.model_validate({})),
    )
