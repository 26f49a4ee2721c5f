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

from configs.targets import Task
from parties.common.errors import DataError
from parties.common.json_files import null_non_finite
from parties.common.traffic import TrafficCounter
from parties.report.method_names import is_independent_retrain, is_retrain, method_label
from unlearning.receipts.receipt import AuditLevel

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
        """Return the part as JSON values; a number that is not finite becomes null.

        The loss of a method that diverged is such a number.
        """
        known: JsonObject = null_non_finite(self.model_dump(mode="json"))
        return known


class Figure(_Part):
    """One metric of one model, compared with the independent Retrain models."""

    name: str  # name of the metric
    value: float | None  # the value; None if it was not measured or is not defined
    ci95: tuple[float, float] | None  # 95 % confidence interval of the value
    retrain_mean: float | None  # mean of the metric over the Retrain models
    retrain_sd: float | None  # standard deviation over the Retrain models; None with fewer than two
    gap: float | None  # the value minus ``retrain_mean``
    gap_in_sd: float | None  # the gap in units of ``retrain_sd``
    n: int  # number of rows, or of other items, from which the value was computed
    direction: str  # which values are good: ``retrain``, ``higher`` or ``lower``
    status: str  # ``ok``, ``not_run`` or ``insufficient_n``
    note: str  # why there is no value, or a remark


class MethodCost(_Part):
    """The cost of a method, and its shares of the cost of a Retrain."""

    seconds: float  # run time
    rows: int | None = None  # forward passes of one row through the parties
    size: int  # bytes sent and received
    payload: int | None = None  # bytes of ``size`` that are embeddings, gradients or models
    messages: int | None = None  # number of messages
    seconds_of_retrain: float | None = None  # ``seconds`` as a share of a full Retrain
    rows_of_retrain: float | None = None  # ``rows`` as a share of a full Retrain
    size_of_retrain: float | None = None  # ``size`` as a share of a full Retrain


class Step(_Part):
    """One step of a method: a round in the federated modes, an iteration in the vertical mode."""

    number: int  # number of the step, from 0; in the federated modes within its stage
    stage: str | None = None  # ``unlearn`` or ``recover``; None if the method has no stages
    loss: float | None = None  # mean loss of the training rows of the step
    score: float | None = None  # forgetting score of the forgotten rows
    threshold: float | None = None  # γ, the threshold of the score
    multiplier: float | None = None  # Ω, the dual variable of the constraint
    conflicts: int | None = None  # number of remaining clients whose gradient opposes the step
    # Largest absolute cosine of the step with the gradient of a remaining client.
    cosine: float | None = None
    skipped: bool = False  # whether the step left the model unchanged
    primal_step: float | None = None  # τ, the step size of the model
    dual_step: float | None = None  # σ, the step size of the dual variable
    dual_bound: float | None = None  # upper bound of ``dual_step``
    gradient_norm: float | None = None  # norm of the score's gradient
    change: float | None = None  # change of the parameters
    # Accuracy on the validation rows, at steps that evaluated it.
    validation_accuracy: float | None = None


class Membership(_Part):
    """Result of the membership attack of the vertical mode on one model."""

    balanced_accuracy: float | None  # balanced accuracy of the attack; 0.5 is chance
    auc: float | None  # area under the ROC curve of the attack; 0.5 is chance
    interval: tuple[float, float] | None  # 95 % confidence interval of ``auc``
    members: int  # number of forgotten rows
    others: int  # number of unseen rows


class Divergence(_Part):
    """Distance of a model's outputs from those of the Retrain models, on one kind of rows."""

    # Mean Jensen-Shannon divergence from the Retrain models, with several labels also over these;
    # None if the labels are a number.
    js: float | None
    ratio: float | None  # the distance divided by that between the Retrain models
    # A number: root mean squared difference from the Retrain models' predictions, mean over these
    # models, in standard deviations of the label in the remaining training rows.
    rms: float | None = None


class MethodRecord(_Part):
    """One model of a request: the original, an unlearned model or a Retrain model."""

    name: str  # name of the method; ``original`` is the model before unlearning
    title: str = ""  # name in the report
    meaning: str = ""  # what the method does, in a few words
    guarantee: str | None = None  # guarantee of the method; None for the original
    cost: MethodCost | None = None  # cost of the method; None for the original
    figures: tuple[Figure, ...] = ()  # all metrics of the model
    steps: tuple[Step, ...] = ()  # rounds or iterations of the method
    stopped: str | None = None  # why the method ended early; None if it ended normally
    # Why the method has no valid model: it has no metrics, or those of the model from before, which
    # all parties restored; None if the model is valid.
    diverged: str | None = None
    # Facts of the method itself, such as a certificate or the loss of each epoch.
    details: JsonObject = {}
    accuracy: dict[str, float | None] | None = None  # vertical mode: accuracy by kind of rows
    membership: Membership | None = None  # vertical mode: result of the membership attack
    # Vertical mode: distance from the Retrain models by kind of rows.
    divergence: dict[str, Divergence] | None = None
    # Federated modes: sums over the rows of each client, by kind of rows and client.
    scores: JsonObject | None = None
    # Federated modes: the scores before recovery (``unlearned``) and after the reverting test
    # (``reverted``).
    stages: JsonObject | None = None
    benchmark: JsonObject | None = None  # LLM mode: metrics of the benchmark at the server

    @model_validator(mode="before")
    @classmethod
    def _name_references(cls, values: Any) -> Any:
        """The original and the Retrain models have the same titles in all modes."""
        if not isinstance(values, dict) or values.get("title"):
            return values
        return {**values, **method_label(values.get("name", ""))._asdict()}


class RequestedRows(_Part):
    """The rows of a request in the vertical mode."""

    forgotten: int  # number of training rows to forget
    retained: int  # number of remaining training rows
    dropped: dict[str, int] = {}  # number of validation and test rows that the request also names
    canaries: int = 0  # number of planted rows
    # Whether the request replaced the labels of the rows, which stay in the training.
    corrects: bool = False
    classes: tuple[str, ...] = ()  # classes that the request names
    # Fraction of the rows of these classes; None if the request names no class.
    fraction: float | None = None


class RequestedMembers(_Part):
    """The clients of a request in the federated modes."""

    leaving: tuple[str, ...]  # clients with rows to forget
    remaining: int  # number of clients with remaining rows


class ThresholdRecord(_Part):
    """The threshold of the forgetting score, and the scores of models."""

    policy: str | None  # policy that set the threshold; None if the chosen method has no threshold
    gamma: float | None  # γ, the threshold
    # Score of the original, of the chosen method and of a Retrain, by method.
    scores: dict[str, float]


class Audits(_Part):
    """Results of the audits of a request; None: the audit did not run."""

    # By party, metrics of the delivered model with the party's original model.
    completeness: dict[str, tuple[Figure, ...]] | None = None
    # By party, the distance of the parameters from the paired Retrain.
    parameters: dict[str, dict[str, float | None]] | None = None
    relearn: JsonObject | None = None  # steps that relearn the forgotten rows, by method
    backdoor: JsonObject | None = None  # success of the backdoor with the original
    # By party, how much the change of the first layer reveals of a row.
    reconstruction: JsonObject | None = None
    # Edges of a histogram, and the counts of the prediction entropy by method.
    entropy: JsonObject | None = None
    label_attack: JsonObject | None = None  # AUC of the attack that infers labels from gradients
    canaries: JsonObject | None = None  # loss and divergence on the planted rows, by method


class Request(_Part):
    """One unlearning request."""

    name: str  # name of the request
    rows: RequestedRows | None = None  # vertical mode: the rows of the request
    members: RequestedMembers | None = None  # federated modes: the clients of the request
    # All models: the original, the chosen method, further methods and Retrain models.
    methods: tuple[MethodRecord, ...]
    chosen: str  # name of the method whose model was delivered
    skipped: str | None = None  # why no method ran; None if methods ran
    # How much was measured: ``full`` with a comparison with Retrains, ``quick`` without; None if no
    # method ran.
    audit_level: AuditLevel | None = None
    threshold: ThresholdRecord | None = None  # vertical mode: the threshold of the forgetting score
    purged: dict[str, tuple[str, ...]] = {}  # by party or client, what it deleted
    # By party, where it still found a forgotten row after the purge; empty if no party searched.
    remains: dict[str, tuple[str, ...]] = {}
    kept: tuple[str, ...] = ()  # what still depends on the forgotten rows
    audits: Audits | None = None  # the audits; None if no audit ran

    @property
    def has_retrains(self) -> bool:
        """Whether the request has independent Retrains, the reference of every comparison."""
        return any(is_independent_retrain(each.name) for each in self.methods)


class Party(_Part):
    """A party of a vertical run."""

    name: str  # name of the party
    role: str  # ``active`` or ``passive``
    width: int | None  # width of the party's embedding; None for the active party
    threads: int | None  # number of threads, if known to the active party


class Privacy(_Part):
    """Privacy claims of a run."""

    summary: str  # a phrase that sums up the claims
    # For each party: what is covered, ε, δ, and the claim as a sentence.
    claims: tuple[JsonObject, ...] = ()


class RunFacts(_Part):
    """The identity and the settings of a run."""

    mode: Literal["vertical", "horizontal", "llm"]  # mode of the federation
    federation: str  # name of the federation
    session: str  # identifier of the run
    agreement: str  # digest of the agreement
    # The agreement, defaults included, in the form of its digest; None in records without it.
    settings: JsonObject | None = None
    seed: int  # seed of all random streams
    software: dict[str, str]  # versions of the software by name
    began: Moment  # when this process began the run
    ended: Moment  # when the run ended or failed
    seconds: float  # duration of the run, without the time between a checkpoint and a crash
    # Guarantee of the agreed unlearning method; None if the methods state it.
    guarantee: str | None = None
    privacy: Privacy | None = None  # privacy claims; None if the mode makes none
    # Federated modes: kind of secure aggregation, and its claim.
    aggregation: JsonObject | None = None
    parties: tuple[Party, ...] = ()  # vertical mode: the parties
    common_rows: int | None = None  # vertical mode: number of rows that all parties have
    # Vertical mode: number of rows to learn, to validate and to test.
    rows: dict[str, int] | None = None
    # Accuracy of the trained model on test rows; LLM mode, or horizontal mode with requests: None.
    test_accuracy: float | None = None
    psi: JsonObject | None = None  # vertical mode: settings of the private set intersection
    overlap: str | None = None  # vertical mode: overlap of training with the network
    clients: int | None = None  # federated modes: number of clients
    parameters: int | None = None  # federated modes: number of parameters of the model
    rule: str | None = None  # federated modes: rule of the server
    share: float | None = None  # federated modes: share of the clients in a round
    partition: str | None = None  # federated modes: partition of the rows
    # Horizontal mode: classes whose rows the partition gives to no client.
    left_out: tuple[str, ...] | None = None
    personal: str | None = None  # federated modes: personal parameters of clients
    revert: int | None = None  # federated modes: rounds of the reverting test
    tuning: str | None = None  # LLM mode: what is trained
    merging: str | None = None  # LLM mode: rule that merges adapters
    # LLM mode: relative gap of the merged adapters, for each merge.
    merging_gaps: tuple[float | None, ...] | None = None
    # LLM mode: absolute gap of the merged adapters, for each merge.
    merging_distances: tuple[float | None, ...] | None = None
    base: str | None = None  # LLM mode: digest of the base model
    benchmark: str | None = None  # LLM mode: benchmark at the server


class TrainingStep(_Part):
    """One epoch or round of the training."""

    number: int  # number of the step, from 1
    loss: float | None  # mean loss of the training rows
    accuracy: float | None = None  # accuracy on the training rows
    validation_loss: float | None = None  # mean loss of the validation rows
    validation_accuracy: float | None = None  # accuracy on the validation rows
    # Vertical mode: AUC on the validation rows, if early stopping watches it.
    validation_auc: float | None = None
    absent: tuple[str, ...] = ()  # clients that were absent


class Training(_Part):
    """The training of the original model."""

    unit: Literal["epoch", "round"]  # what a step is
    steps: tuple[TrainingStep, ...]  # the steps
    kept: int | None = None  # number of the step whose model was kept; None: the last one
    stream: str = "original"  # name of the random stream


class Confusion(_Part):
    """Test rows by true and predicted class."""

    classes: tuple[str, ...]  # names of the classes, in order
    # How the threshold was chosen: by the maximum of Youden's J on validation rows (two classes);
    # or the most probable class is predicted, without a threshold.
    rule: Literal["youden", "most probable"]
    threshold: float | None  # probability of the second class from which it is predicted
    counts: tuple[tuple[int, ...], ...]  # rows by true class, then by predicted class


class GainFigure(_Part):
    """How much better the joint model is than the active party's own model, by one figure.

    It is the difference of the two figures; for errors, the own model's minus the joint model's.
    """

    value: float | None  # the difference; null if one of the two is not defined
    # Its 95 % interval, from a paired bootstrap over test rows; null if too few resamples have one.
    ci95: tuple[float, float] | None


class AloneFigures(_Part):
    """What the active party reaches alone, on the same test rows."""

    party: str  # name of the active party
    # Whether it trained a model of its own columns; without columns, it predicts the most frequent
    # class.
    columns: bool
    seconds: float  # time of the training; no byte was sent for it
    auc: float | None = None  # area under the ROC curve
    accuracy: float | None = None  # accuracy of the most probable class
    gain_auc: GainFigure | None = None  # what joining brings in AUC
    gain_accuracy: GainFigure | None = None  # what joining brings in accuracy
    r2: float | None = None  # a number: R²
    mae: float | None = None  # a number: mean absolute error
    gain_r2: GainFigure | None = None  # what joining brings in R²
    gain_mae: GainFigure | None = None  # by how much joining lowers the mean absolute error
    absent: str | None = None  # why the model has no figures; null if it has


class ImportanceFigure(_Part):
    """How much a figure falls if values are permuted over the test rows."""

    mean: float  # mean over the permutations
    sd: float | None  # standard deviation over the permutations; null with a single one


class ImportanceLine(_Part):
    """The importance of all columns of one party together, or of one column."""

    party: str  # name of the party
    column: str | None = None  # name of one of the active party's columns; null: all of the party
    drops: dict[str, ImportanceFigure]  # the fall of each figure, such as "auc", by its name


class Importance(_Part):
    """Permutation importance on the test rows."""

    permutations: int  # number of permutations behind each line
    figures: dict[str, float]  # the figures without a permutation, by name
    lines: tuple[ImportanceLine, ...]  # every party, then the columns of the active party
    # Why the active party's columns are not measured; null if they are, or if it has none.
    columns_absent: str | None = None


class ModelFigures(_Part):
    """Figures of the trained model on test rows, before any request.

    A figure is null if it is not defined for the task, or if ``absent`` has a reason. Of two
    classes, the second is the positive one.
    """

    # What the model predicts: one of several classes, a number, or several binary labels.
    task: Task = "classification"
    rows: int  # number of test rows
    auc: float | None = None  # area under the ROC curve; several classes: mean of one against rest
    # Area under the curve of precision and recall; several classes: mean of one against the rest.
    average_precision: float | None = None
    # Largest distance between the distributions of the score of the two classes.
    ks: float | None = None
    gini: float | None = None  # 2 AUC - 1, two classes
    log_loss: float | None = None  # mean negative log-likelihood of the label, in nats
    # Expected calibration error: 15 bins of equal width over the probability of the predicted class
    calibration_error: float | None = None
    # Mean squared error of the probabilities: of the second class if there are two, else summed
    # over the classes.
    brier: float | None = None
    # Accuracy of the most probable class; several labels: all labels of the row are right.
    accuracy: float | None = None
    # The most frequent class of the training rows; null if the labels are no classes.
    majority_class: str | None = None
    # Accuracy of a model that always predicts it; null without test rows.
    majority_accuracy: float | None = None
    r2: float | None = None  # a number: coefficient of determination R²
    mae: float | None = None  # a number: mean absolute error, in its unit
    rmse: float | None = None  # a number: root mean squared error, in its unit
    mean: float | None = None  # a number: its mean in the training rows
    mean_mae: float | None = None  # mean absolute error of a model that always predicts the mean
    mean_rmse: float | None = None  # root mean squared error of such a model
    auc_macro: float | None = None  # several labels: mean of their AUCs
    auc_micro: float | None = None  # several labels: AUC over all pairs of a row and a label
    hamming_loss: float | None = None  # several labels: share of the wrong labels
    label_auc: dict[str, float] = {}  # several labels: AUC of each label that has one
    absent: dict[str, str] = {}  # the reason for each figure that is null, by its name
    confusion: Confusion | None = None  # rows by true and predicted class; null without test rows
    alone: AloneFigures | None = None  # the active party alone; null with evaluation.alone = false
    importance: Importance | None = None  # null with evaluation.importance = 0


class PhaseTraffic(_Part):
    """Traffic of one phase of the run."""

    phase: str  # name of the phase
    seconds: float | None  # duration of the phase
    bytes: int | None  # bytes in both directions
    payload: int | None = None  # bytes without the envelope of the messages
    messages: int | None  # number of messages


class PeerTraffic(_Part):
    """Traffic with one peer."""

    peer: str  # name of the peer
    bytes_in: int  # received bytes
    bytes_out: int  # sent bytes
    messages: int  # number of messages in both directions


class RunRecord(_Part):
    """The record of a run."""

    version: Literal[3] = VERSION  # version of this layout
    run: RunFacts  # identity and settings of the run
    training: Training | None  # the training; None if the run failed before its end
    # Vertical mode: figures of the trained model; None if the run failed before they were measured.
    model: ModelFigures | None = None
    requests: tuple[Request, ...]  # the finished unlearning requests
    traffic: tuple[PhaseTraffic, ...]  # traffic by phase
    peers: tuple[PeerTraffic, ...]  # traffic by peer
    failure: str | None = None  # why the run failed; None if it finished
    # The benchmark that made this record; None outside of benchmarks.
    bench: JsonObject | None = None


def run_record(
    run: RunFacts,
    training: Training | None,
    requests: Sequence[Request],
    traffic: TrafficCounter,
    failure: str | None = None,
    model: ModelFigures | None = None,
) -> RunRecord:
    """Return the record of a run with the traffic that ``traffic`` has counted."""
    return RunRecord(
        run=run,
        training=training,
        model=model,
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
