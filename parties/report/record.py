"""The record of a run, ``metrics.json``: one layout for all modes.

``RunRecord`` describes the whole file. A field that a mode does not measure is null or empty. The
record is the only input of the report.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    ValidationError,
    model_validator,
)

from parties.common.errors import DataError
from parties.common.traffic import TrafficCounter
from parties.report.method_names import is_retrain, reference_label

VERSION: Final = 3  # of the record; grows with every change that an older reader would misread
JsonObject: TypeAlias = dict[str, Any]
_PARTS = ("run", "training", "requests", "traffic", "peers")


def _as_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


Moment: TypeAlias = Annotated[AwareDatetime, AfterValidator(_as_utc)]  # written as ISO 8601, in UTC


class _Part(BaseModel):
    """A part of the record; a field without a default is always measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def plain(self) -> JsonObject:
        """Return the part as JSON values."""
        return self.model_dump(mode="json")


class Figure(_Part):
    """One metric of one model, compared with the independent Retrain models.

    Attributes:
        name: name of the metric.
        value: the value; None if it was not measured or is not defined.
        ci95: 95 % confidence interval of the value.
        retrain_mean: mean of the metric over the Retrain models.
        retrain_sd: standard deviation over the Retrain models; None with fewer than two.
        gap: the value minus ``retrain_mean``.
        gap_in_sd: the gap in units of ``retrain_sd``.
        n: number of rows, or of other items, from which the value was computed.
        direction: which values are good: ``retrain``, ``higher`` or ``lower``.
        status: ``ok``, ``not_run`` or ``insufficient_n``.
        note: why there is no value, or a remark.
    """

    name: str
    value: float | None
    ci95: tuple[float, float] | None
    retrain_mean: float | None
    retrain_sd: float | None
    gap: float | None
    gap_in_sd: float | None
    n: int
    direction: str
    status: str
    note: str


class MethodCost(_Part):
    """The cost of a method, and its shares of the cost of a Retrain.

    Attributes:
        seconds: run time.
        rows: forward passes of one row through the parties.
        size: bytes sent and received.
        payload: bytes of ``size`` that are embeddings, gradients or models.
        messages: number of messages.
        seconds_of_retrain: ``seconds`` as a share of a full Retrain.
        rows_of_retrain: ``rows`` as a share of a full Retrain.
        size_of_retrain: ``size`` as a share of a full Retrain.
    """

    seconds: float
    rows: int | None = None
    size: int
    payload: int | None = None
    messages: int | None = None
    seconds_of_retrain: float | None = None
    rows_of_retrain: float | None = None
    size_of_retrain: float | None = None


class Step(_Part):
    """One step of a method: a round in the federated modes, an iteration in the vertical mode.

    Attributes:
        number: number of the step, from 0; in the federated modes within its stage.
        stage: ``unlearn`` or ``recover``; None if the method has no stages.
        loss: mean loss of the training rows of the step.
        score: forgetting score of the forgotten rows.
        threshold: γ, the threshold of the score.
        multiplier: Ω, the dual variable of the constraint.
        conflicts: number of remaining clients whose gradient opposes the step.
        cosine: largest absolute cosine of the step with the gradient of a remaining client.
        skipped: whether the step left the model unchanged.
        primal_step: τ, the step size of the model.
        dual_step: σ, the step size of the dual variable.
        dual_bound: upper bound of ``dual_step``.
        gradient_norm: norm of the score's gradient.
        change: change of the parameters.
        validation_accuracy: accuracy on the validation rows, at steps that evaluated it.
    """

    number: int
    stage: str | None = None
    loss: float | None = None
    score: float | None = None
    threshold: float | None = None
    multiplier: float | None = None
    conflicts: int | None = None
    cosine: float | None = None
    skipped: bool = False
    primal_step: float | None = None
    dual_step: float | None = None
    dual_bound: float | None = None
    gradient_norm: float | None = None
    change: float | None = None
    validation_accuracy: float | None = None


class Membership(_Part):
    """Result of the membership attack of the vertical mode on one model.

    Attributes:
        balanced_accuracy: balanced accuracy of the attack; 0.5 is chance.
        auc: area under the ROC curve of the attack; 0.5 is chance.
        interval: 95 % confidence interval of ``auc``.
        members: number of forgotten rows.
        others: number of unseen rows.
    """

    balanced_accuracy: float | None
    auc: float | None
    interval: tuple[float, float] | None
    members: int
    others: int


class Divergence(_Part):
    """Divergence of a model's outputs from those of the Retrain models, on one kind of rows.

    Attributes:
        js: mean Jensen-Shannon divergence from the Retrain models.
        ratio: ``js`` divided by the divergence between the Retrain models.
    """

    js: float | None
    ratio: float | None


class MethodRecord(_Part):
    """One model of a request: the original, an unlearned model or a Retrain model.

    Attributes:
        name: name of the method; ``original`` is the model before unlearning.
        title: name in the report.
        meaning: what the method does, in a few words.
        guarantee: guarantee of the method; None for the original.
        cost: cost of the method; None for the original.
        figures: all metrics of the model.
        steps: rounds or iterations of the method.
        stopped: why the method ended early; None if it ended normally.
        diverged: why the method has no valid model and no metrics; None if the model is valid.
        details: facts of the method itself, such as a certificate or the loss of each epoch.
        accuracy: vertical mode: accuracy by kind of rows.
        membership: vertical mode: result of the membership attack.
        divergence: vertical mode: divergence from the Retrain models by kind of rows.
        scores: federated modes: sums over the rows of each client, by kind of rows and client.
        stages: federated modes: the scores before recovery (``unlearned``) and after the reverting
            test (``reverted``).
        benchmark: LLM mode: metrics of the benchmark at the server.
    """

    name: str
    title: str = ""
    meaning: str = ""
    guarantee: str | None = None
    cost: MethodCost | None = None
    figures: tuple[Figure, ...] = ()
    steps: tuple[Step, ...] = ()
    stopped: str | None = None
    diverged: str | None = None
    details: JsonObject = {}
    accuracy: dict[str, float | None] | None = None
    membership: Membership | None = None
    divergence: dict[str, Divergence] | None = None
    scores: JsonObject | None = None
    stages: JsonObject | None = None
    benchmark: JsonObject | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_references(cls, values: Any) -> Any:
        """The original and the Retrain models have the same titles in all modes."""
        if not isinstance(values, dict) or values.get("title"):
            return values
        title, meaning = reference_label(values.get("name", ""))
        return {**values, "title": title, "meaning": meaning}


class RequestedRows(_Part):
    """The rows of a request in the vertical mode.

    Attributes:
        forgotten: number of training rows to forget.
        retained: number of remaining training rows.
        dropped: number of validation and test rows that the request also names.
        canaries: number of planted rows.
        classes: classes that the request names.
        fraction: fraction of the rows of these classes; None if the request names no class.
    """

    forgotten: int
    retained: int
    dropped: dict[str, int] = {}
    canaries: int = 0
    classes: tuple[str, ...] = ()
    fraction: float | None = None


class RequestedMembers(_Part):
    """The clients of a request in the federated modes.

    Attributes:
        leaving: clients with rows to forget.
        remaining: number of clients with remaining rows.
    """

    leaving: tuple[str, ...]
    remaining: int


class ThresholdRecord(_Part):
    """The threshold of the forgetting score, and the scores of models.

    Attributes:
        policy: policy that set the threshold; None if the chosen method has no threshold.
        gamma: γ, the threshold.
        scores: score of the original, of the chosen method and of a Retrain, by method.
    """

    policy: str | None
    gamma: float | None
    scores: dict[str, float]


class Audits(_Part):
    """Results of the audits of a request; None: the audit did not run.

    Attributes:
        completeness: by party, metrics of the delivered model with the party's original model.
        parameters: by party, the distance of the parameters from the paired Retrain.
        relearn: steps that relearn the forgotten rows, by method.
        backdoor: success of the backdoor with the original.
        reconstruction: by party, how much the change of the first layer reveals of a row.
        entropy: edges of a histogram, and the counts of the prediction entropy by method.
        label_attack: AUC of the attack that infers labels from gradients.
        canaries: loss and divergence on the planted rows, by method.
    """

    completeness: dict[str, tuple[Figure, ...]] | None = None
    parameters: dict[str, dict[str, float | None]] | None = None
    relearn: JsonObject | None = None
    backdoor: JsonObject | None = None
    reconstruction: JsonObject | None = None
    entropy: JsonObject | None = None
    label_attack: JsonObject | None = None
    canaries: JsonObject | None = None


class Request(_Part):
    """One unlearning request.

    Attributes:
        name: name of the request.
        rows: vertical mode: the rows of the request.
        members: federated modes: the clients of the request.
        methods: all models: the original, the chosen method, further methods and Retrain models.
        chosen: name of the method whose model was delivered.
        skipped: why no method ran; None if methods ran.
        threshold: vertical mode: the threshold of the forgetting score.
        purged: by party or client, what it deleted.
        remains: by party, where it still found a forgotten row after the purge; empty if no party
            searched.
        kept: what still depends on the forgotten rows.
        audits: the audits; None if no audit ran.
    """

    name: str
    rows: RequestedRows | None = None
    members: RequestedMembers | None = None
    methods: tuple[MethodRecord, ...]
    chosen: str
    skipped: str | None = None
    threshold: ThresholdRecord | None = None
    purged: dict[str, tuple[str, ...]] = {}
    remains: dict[str, tuple[str, ...]] = {}
    kept: tuple[str, ...] = ()
    audits: Audits | None = None


class Party(_Part):
    """A party of a vertical run.

    Attributes:
        name: name of the party.
        role: ``active`` or ``passive``.
        width: width of the party's embedding; None for the active party.
        threads: number of threads, if known to the active party.
    """

    name: str
    role: str
    width: int | None
    threads: int | None


class Privacy(_Part):
    """Privacy claims of a run.

    Attributes:
        summary: a phrase that sums up the claims.
        claims: for each party: what is covered, ε, δ, and the claim as a sentence.
    """

    summary: str
    claims: tuple[JsonObject, ...] = ()


class RunFacts(_Part):
    """The identity and the settings of a run.

    Attributes:
        mode: mode of the federation.
        federation: name of the federation.
        session: identifier of the run.
        agreement: digest of the agreement.
        seed: seed of all random streams.
        software: versions of the software by name.
        began: when this process began the run.
        ended: when the run ended or failed.
        seconds: duration of the run, without the time between a checkpoint and a crash.
        guarantee: guarantee of the agreed unlearning method; None if the methods state it.
        privacy: privacy claims; None if the mode makes none.
        aggregation: federated modes: kind of secure aggregation, and its claim.
        parties: vertical mode: the parties.
        common_rows: vertical mode: number of rows that all parties have.
        rows: vertical mode: number of rows to learn, to validate and to test.
        test_accuracy: vertical mode: accuracy of the trained model on test rows.
        psi: vertical mode: settings of the private set intersection.
        overlap: vertical mode: overlap of training with the network.
        clients: federated modes: number of clients.
        parameters: federated modes: number of parameters of the model.
        rule: federated modes: rule of the server.
        share: federated modes: share of the clients in a round.
        partition: federated modes: partition of the rows.
        personal: federated modes: personal parameters of clients.
        revert: federated modes: rounds of the reverting test.
        tuning: LLM mode: what is trained.
        merging: LLM mode: rule that merges adapters.
        merging_gaps: LLM mode: relative gap of the merged adapters, for each merge.
        merging_distances: LLM mode: absolute gap of the merged adapters, for each merge.
        base: LLM mode: digest of the base model.
        benchmark: LLM mode: benchmark at the server.
    """

    mode: Literal["vertical", "horizontal", "llm"]
    federation: str
    session: str
    agreement: str
    seed: int
    software: dict[str, str]
    began: Moment
    ended: Moment
    seconds: float
    guarantee: str | None = None
    privacy: Privacy | None = None
    aggregation: JsonObject | None = None
    parties: tuple[Party, ...] = ()
    common_rows: int | None = None
    rows: dict[str, int] | None = None
    test_accuracy: float | None = None
    psi: JsonObject | None = None
    overlap: str | None = None
    clients: int | None = None
    parameters: int | None = None
    rule: str | None = None
    share: float | None = None
    partition: str | None = None
    personal: str | None = None
    revert: int | None = None
    tuning: str | None = None
    merging: str | None = None
    merging_gaps: tuple[float | None, ...] | None = None
    merging_distances: tuple[float | None, ...] | None = None
    base: str | None = None
    benchmark: str | None = None


class TrainingStep(_Part):
    """One epoch or round of the training.

    Attributes:
        number: number of the step, from 1.
        loss: mean loss of the training rows.
        accuracy: accuracy on the training rows.
        validation_loss: mean loss of the validation rows.
        validation_accuracy: accuracy on the validation rows.
        absent: clients that were absent.
    """

    number: int
    loss: float | None
    accuracy: float | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    absent: tuple[str, ...] = ()


class Training(_Part):
    """The training of the original model.

    Attributes:
        unit: what a step is.
        steps: the steps.
        kept: number of the step whose model was kept; None: the last one.
        stream: name of the random stream.
    """

    unit: Literal["epoch", "round"]
    steps: tuple[TrainingStep, ...]
    kept: int | None = None
    stream: str = "original"


class PhaseTraffic(_Part):
    """Traffic of one phase of the run.

    Attributes:
        phase: name of the phase.
        seconds: duration of the phase.
        bytes: bytes in both directions.
        payload: bytes without the envelope of the messages.
        messages: number of messages.
    """

    phase: str
    seconds: float | None
    bytes: int | None
    payload: int | None = None
    messages: int | None


class PeerTraffic(_Part):
    """Traffic with one peer.

    Attributes:
        peer: name of the peer.
        bytes_in: received bytes.
        bytes_out: sent bytes.
        messages: number of messages in both directions.
    """

    peer: str
    bytes_in: int
    bytes_out: int
    messages: int


class RunRecord(_Part):
    """The record of a run.

    Attributes:
        version: version of this layout.
        run: identity and settings of the run.
        training: the training; None if the run failed before its end.
        requests: the finished unlearning requests.
        traffic: traffic by phase.
        peers: traffic by peer.
        failure: why the run failed; None if it finished.
        bench: the benchmark that made this record; None outside of benchmarks.
    """

    version: Literal[3] = VERSION
    run: RunFacts
    training: Training | None
    requests: tuple[Request, ...]
    traffic: tuple[PhaseTraffic, ...]
    peers: tuple[PeerTraffic, ...]
    failure: str | None = None
    bench: JsonObject | None = None


def run_record(
    run: RunFacts,
    training: Training | None,
    requests: Sequence[Request],
    traffic: TrafficCounter,
    failure: str | None = None,
) -> RunRecord:
    """Return the record of a run with the traffic that ``traffic`` has counted."""
    return RunRecord(
        run=run,
        training=training,
        requests=tuple(requests),
        traffic=tuple(PhaseTraffic(**each) for each in traffic.by_phase()),
        peers=tuple(PeerTraffic(**each) for each in traffic.by_peer()),
        failure=failure,
    )


def read_record(content: Any, source: str = "the record") -> RunRecord:
    """Return the record with the JSON values ``content``; ``source`` names it in errors.

    Raises:
        DataError: ``content`` is no record of a run, or has another version.
    """
    if not isinstance(content, Mapping) or not all(part in content for part in _PARTS):
        raise DataError(f"{source} is not the metrics file of a run")
    version = content.get("version")
    if version != VERSION:
        raise DataError(
            f"{source} has format version {version!r:.20}, but this vfl reads format version "
            f"{VERSION}",
            "use the version of vfl that wrote the file, or repeat the run",
        )
    try:
        return RunRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{source}: values that the report needs are missing or illegal: "
            f"{place}: {first['msg']}"
        ) from None


def add_shares_of_retrain(methods: Sequence[MethodRecord]) -> list[MethodRecord]:
    """Return the methods; each cost also has its shares of the mean cost of the Retrain models."""
    known = [each.cost for each in methods if each.cost and is_retrain(each.name)]
    seconds, size = sum(each.seconds for each in known), sum(each.size for each in known)

    def shares(cost: MethodCost) -> JsonObject:
        return {
            "seconds_of_retrain": cost.seconds * len(known) / seconds if seconds else None,
            "size_of_retrain": cost.size * len(known) / size if size else None,
        }

    return [
        each.model_copy(update={"cost": each.cost.model_copy(update=shares(each.cost))})
        if each.cost
        else each
        for each in methods
    ]
