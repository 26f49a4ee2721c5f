from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    JOIN: _ClassVar[Task]
    ALIGN: _ClassVar[Task]
    TRAIN: _ClassVar[Task]
    EVALUATE: _ClassVar[Task]
    UNLEARN: _ClassVar[Task]
    CLOSE: _ClassVar[Task]
    CHECKPOINT: _ClassVar[Task]
    RELEARN: _ClassVar[Task]
    PREDICT: _ClassVar[Task]
    ROUND: _ClassVar[Task]

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    FLOAT32: _ClassVar[DType]
    FLOAT64: _ClassVar[DType]
    INT64: _ClassVar[DType]
    BYTES: _ClassVar[DType]

class Rows(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROWS_UNSPECIFIED: _ClassVar[Rows]
    TRAIN_ROWS: _ClassVar[Rows]
    RETAIN: _ClassVar[Rows]
    FORGOTTEN: _ClassVar[Rows]
    VALIDATION: _ClassVar[Rows]
    TEST: _ClassVar[Rows]
    SAMPLE: _ClassVar[Rows]
    SHADOW_HALF: _ClassVar[Rows]
    SHADOW_OTHER_HALF: _ClassVar[Rows]
    TRIGGERED: _ClassVar[Rows]
    PLANTED: _ClassVar[Rows]
    MEMBERS: _ClassVar[Rows]
    NON_MEMBERS: _ClassVar[Rows]

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_UNSPECIFIED: _ClassVar[Order]
    BY_INDEX: _ClassVar[Order]
    SHUFFLED: _ClassVar[Order]

class OptimiserKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPTIMISER_UNSPECIFIED: _ClassVar[OptimiserKind]
    PLAIN: _ClassVar[OptimiserKind]
    ADAM: _ClassVar[OptimiserKind]
    SGD: _ClassVar[OptimiserKind]

class Codes(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODES_UNSPECIFIED: _ClassVar[Codes]
    SVD: _ClassVar[Codes]
    PROJECTION: _ClassVar[Codes]
    PATCHES: _ClassVar[Codes]
    AUTO: _ClassVar[Codes]
    TRAINED: _ClassVar[Codes]

class MadeBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MADE_BY_UNSPECIFIED: _ClassVar[MadeBy]
    TRAINING: _ClassVar[MadeBy]
    REQUESTS: _ClassVar[MadeBy]
TASK_UNSPECIFIED: Task
JOIN: Task
ALIGN: Task
TRAIN: Task
EVALUATE: Task
UNLEARN: Task
CLOSE: Task
CHECKPOINT: Task
RELEARN: Task
PREDICT: Task
ROUND: Task
DTYPE_UNSPECIFIED: DType
FLOAT32: DType
FLOAT64: DType
INT64: DType
BYTES: DType
ROWS_UNSPECIFIED: Rows
TRAIN_ROWS: Rows
RETAIN: Rows
FORGOTTEN: Rows
VALIDATION: Rows
TEST: Rows
SAMPLE: Rows
SHADOW_HALF: Rows
SHADOW_OTHER_HALF: Rows
TRIGGERED: Rows
PLANTED: Rows
MEMBERS: Rows
NON_MEMBERS: Rows
ORDER_UNSPECIFIED: Order
BY_INDEX: Order
SHUFFLED: Order
OPTIMISER_UNSPECIFIED: OptimiserKind
PLAIN: OptimiserKind
ADAM: OptimiserKind
SGD: OptimiserKind
CODES_UNSPECIFIED: Codes
SVD: Codes
PROJECTION: Codes
PATCHES: Codes
AUTO: Codes
TRAINED: Codes
MADE_BY_UNSPECIFIED: MadeBy
TRAINING: MadeBy
REQUESTS: MadeBy
ABSENT_IF_FIELD_NUMBER: _ClassVar[int]
absent_if: _descriptor.FieldDescriptor
BOUNDS_FIELD_NUMBER: _ClassVar[int]
bounds: _descriptor.FieldDescriptor
TENSOR_FIELD_NUMBER: _ClassVar[int]
tensor: _descriptor.FieldDescriptor
WORD_FIELD_NUMBER: _ClassVar[int]
word: _descriptor.FieldDescriptor

class Bounds(_message.Message):
    __slots__ = ("min", "max", "above", "finite", "max_size")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    FINITE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    min: float
    max: float
    above: float
    finite: bool
    max_size: int
    def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ..., above: _Optional[float] = ..., finite: _Optional[bool] = ..., max_size: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("envelope", "tensors", "hello", "welcome", "accept", "abort", "goodbye", "start_alignment", "key_share", "key_shares", "ot_offer", "ot_answer", "oprf_matrix", "key_value_store", "match_tags", "aligned", "split_rows", "blinded_elements", "evaluated_elements", "evaluation_proof", "model_command", "done", "batch_request", "embedding", "step", "gradient", "forget_rows", "purge", "evaluate", "plant_trigger", "resume", "resumed", "predict", "sync_journal", "journal_events", "load_vector", "run_task", "update", "local_update", "evaluate_rows", "metrics", "select_request", "switch_branch", "keep_version", "start_sum", "mask_keys", "member_keys", "sealed_shares", "share_seed", "present", "revealed_shares", "sealing_key", "share_key", "sum_key", "ciphertext_sum", "approve", "approvals", "decrypted_sum")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    START_ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    KEY_SHARE_FIELD_NUMBER: _ClassVar[int]
    KEY_SHARES_FIELD_NUMBER: _ClassVar[int]
    OT_OFFER_FIELD_NUMBER: _ClassVar[int]
    OT_ANSWER_FIELD_NUMBER: _ClassVar[int]
    OPRF_MATRIX_FIELD_NUMBER: _ClassVar[int]
    KEY_VALUE_STORE_FIELD_NUMBER: _ClassVar[int]
    MATCH_TAGS_FIELD_NUMBER: _ClassVar[int]
    ALIGNED_FIELD_NUMBER: _ClassVar[int]
    SPLIT_ROWS_FIELD_NUMBER: _ClassVar[int]
    BLINDED_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_PROOF_FIELD_NUMBER: _ClassVar[int]
    MODEL_COMMAND_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    BATCH_REQUEST_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_FIELD_NUMBER: _ClassVar[int]
    FORGET_ROWS_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    PLANT_TRIGGER_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    PREDICT_FIELD_NUMBER: _ClassVar[int]
    SYNC_JOURNAL_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_EVENTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_VECTOR_FIELD_NUMBER: _ClassVar[int]
    RUN_TASK_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_UPDATE_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_ROWS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SELECT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    SWITCH_BRANCH_FIELD_NUMBER: _ClassVar[int]
    KEEP_VERSION_FIELD_NUMBER: _ClassVar[int]
    START_SUM_FIELD_NUMBER: _ClassVar[int]
    MASK_KEYS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_KEYS_FIELD_NUMBER: _ClassVar[int]
    SEALED_SHARES_FIELD_NUMBER: _ClassVar[int]
    SHARE_SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    REVEALED_SHARES_FIELD_NUMBER: _ClassVar[int]
    SEALING_KEY_FIELD_NUMBER: _ClassVar[int]
    SHARE_KEY_FIELD_NUMBER: _ClassVar[int]
    SUM_KEY_FIELD_NUMBER: _ClassVar[int]
    CIPHERTEXT_SUM_FIELD_NUMBER: _ClassVar[int]
    APPROVE_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    DECRYPTED_SUM_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    tensors: _containers.RepeatedCompositeFieldContainer[TensorShape]
    hello: Hello
    welcome: Welcome
    accept: Accept
    abort: Abort
    goodbye: Goodbye
    start_alignment: StartAlignment
    key_share: KeyShare
    key_shares: KeyShares
    ot_offer: OtOffer
    ot_answer: OtAnswer
    oprf_matrix: OprfMatrix
    key_value_store: KeyValueStore
    match_tags: MatchTags
    aligned: Aligned
    split_rows: SplitRows
    blinded_elements: BlindedElements
    evaluated_elements: EvaluatedElements
    evaluation_proof: EvaluationProof
    model_command: ModelCommand
    done: Done
    batch_request: BatchRequest
    embedding: Embedding
    step: Step
    gradient: Gradient
    forget_rows: ForgetRows
    purge: Purge
    evaluate: Evaluate
    plant_trigger: PlantTrigger
    resume: Resume
    resumed: Resumed
    predict: Predict
    sync_journal: SyncJournal
    journal_events: JournalEvents
    load_vector: LoadVector
    run_task: RunTask
    update: Update
    local_update: LocalUpdate
    evaluate_rows: EvaluateRows
    metrics: Metrics
    select_request: SelectRequest
    switch_branch: SwitchBranch
    keep_version: KeepVersion
    start_sum: StartSum
    mask_keys: MaskKeys
    member_keys: MemberKeys
    sealed_shares: SealedShares
    share_seed: ShareSeed
    present: Present
    revealed_shares: RevealedShares
    sealing_key: SealingKey
    share_key: ShareKey
    sum_key: SumKey
    ciphertext_sum: CiphertextSum
    approve: Approve
    approvals: Approvals
    decrypted_sum: DecryptedSum
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., tensors: _Optional[_Iterable[_Union[TensorShape, _Mapping]]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., accept: _Optional[_Union[Accept, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., start_alignment: _Optional[_Union[StartAlignment, _Mapping]] = ..., key_share: _Optional[_Union[KeyShare, _Mapping]] = ..., key_shares: _Optional[_Union[KeyShares, _Mapping]] = ..., ot_offer: _Optional[_Union[OtOffer, _Mapping]] = ..., ot_answer: _Optional[_Union[OtAnswer, _Mapping]] = ..., oprf_matrix: _Optional[_Union[OprfMatrix, _Mapping]] = ..., key_value_store: _Optional[_Union[KeyValueStore, _Mapping]] = ..., match_tags: _Optional[_Union[MatchTags, _Mapping]] = ..., aligned: _Optional[_Union[Aligned, _Mapping]] = ..., split_rows: _Optional[_Union[SplitRows, _Mapping]] = ..., blinded_elements: _Optional[_Union[BlindedElements, _Mapping]] = ..., evaluated_elements: _Optional[_Union[EvaluatedElements, _Mapping]] = ..., evaluation_proof: _Optional[_Union[EvaluationProof, _Mapping]] = ..., model_command: _Optional[_Union[ModelCommand, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., batch_request: _Optional[_Union[BatchRequest, _Mapping]] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., gradient: _Optional[_Union[Gradient, _Mapping]] = ..., forget_rows: _Optional[_Union[ForgetRows, _Mapping]] = ..., purge: _Optional[_Union[Purge, _Mapping]] = ..., evaluate: _Optional[_Union[Evaluate, _Mapping]] = ..., plant_trigger: _Optional[_Union[PlantTrigger, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ..., predict: _Optional[_Union[Predict, _Mapping]] = ..., sync_journal: _Optional[_Union[SyncJournal, _Mapping]] = ..., journal_events: _Optional[_Union[JournalEvents, _Mapping]] = ..., load_vector: _Optional[_Union[LoadVector, _Mapping]] = ..., run_task: _Optional[_Union[RunTask, _Mapping]] = ..., update: _Optional[_Union[Update, _Mapping]] = ..., local_update: _Optional[_Union[LocalUpdate, _Mapping]] = ..., evaluate_rows: _Optional[_Union[EvaluateRows, _Mapping]] = ..., metrics: _Optional[_Union[Metrics, _Mapping]] = ..., select_request: _Optional[_Union[SelectRequest, _Mapping]] = ..., switch_branch: _Optional[_Union[SwitchBranch, _Mapping]] = ..., keep_version: _Optional[_Union[KeepVersion, _Mapping]] = ..., start_sum: _Optional[_Union[StartSum, _Mapping]] = ..., mask_keys: _Optional[_Union[MaskKeys, _Mapping]] = ..., member_keys: _Optional[_Union[MemberKeys, _Mapping]] = ..., sealed_shares: _Optional[_Union[SealedShares, _Mapping]] = ..., share_seed: _Optional[_Union[ShareSeed, _Mapping]] = ..., present: _Optional[_Union[Present, _Mapping]] = ..., revealed_shares: _Optional[_Union[RevealedShares, _Mapping]] = ..., sealing_key: _Optional[_Union[SealingKey, _Mapping]] = ..., share_key: _Optional[_Union[ShareKey, _Mapping]] = ..., sum_key: _Optional[_Union[SumKey, _Mapping]] = ..., ciphertext_sum: _Optional[_Union[CiphertextSum, _Mapping]] = ..., approve: _Optional[_Union[Approve, _Mapping]] = ..., approvals: _Optional[_Union[Approvals, _Mapping]] = ..., decrypted_sum: _Optional[_Union[DecryptedSum, _Mapping]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("version", "session", "agreement", "sender", "receiver", "incarnation", "seq", "transcript", "place")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    version: int
    session: bytes
    agreement: bytes
    sender: str
    receiver: str
    incarnation: int
    seq: int
    transcript: bytes
    place: Place
    def __init__(self, version: _Optional[int] = ..., session: _Optional[bytes] = ..., agreement: _Optional[bytes] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., transcript: _Optional[bytes] = ..., place: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("task", "epoch", "step", "microbatch")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MICROBATCH_FIELD_NUMBER: _ClassVar[int]
    task: Task
    epoch: int
    step: int
    microbatch: int
    def __init__(self, task: _Optional[_Union[Task, str]] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ..., microbatch: _Optional[int] = ...) -> None: ...

class TensorShape(_message.Message):
    __slots__ = ("dtype", "dims")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., dims: _Optional[_Iterable[int]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("oldest_version", "newest_version", "nonce", "agreement", "clock", "software", "run", "checkpoints", "prediction", "serves", "kept", "replays", "base")
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    SERVES_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    oldest_version: int
    newest_version: int
    nonce: bytes
    agreement: str
    clock: float
    software: str
    run: bytes
    checkpoints: _containers.RepeatedScalarFieldContainer[int]
    prediction: Prediction
    serves: bool
    kept: int
    replays: str
    base: BaseVersion
    def __init__(self, oldest_version: _Optional[int] = ..., newest_version: _Optional[int] = ..., nonce: _Optional[bytes] = ..., agreement: _Optional[str] = ..., clock: _Optional[float] = ..., software: _Optional[str] = ..., run: _Optional[bytes] = ..., checkpoints: _Optional[_Iterable[int]] = ..., prediction: _Optional[_Union[Prediction, _Mapping]] = ..., serves: _Optional[bool] = ..., kept: _Optional[int] = ..., replays: _Optional[str] = ..., base: _Optional[_Union[BaseVersion, _Mapping]] = ...) -> None: ...

class BaseVersion(_message.Message):
    __slots__ = ("run", "number")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    number: int
    def __init__(self, run: _Optional[bytes] = ..., number: _Optional[int] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    def __init__(self, run: _Optional[bytes] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("nonce", "clock", "software", "certificate", "signature")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    clock: float
    software: str
    certificate: bytes
    signature: bytes
    def __init__(self, nonce: _Optional[bytes] = ..., clock: _Optional[float] = ..., software: _Optional[str] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Accept(_message.Message):
    __slots__ = ("certificate", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("code", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: str
    reason: str
    def __init__(self, code: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartAlignment(_message.Message):
    __slots__ = ("rows", "completed_buckets")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    completed_buckets: int
    def __init__(self, rows: _Optional[int] = ..., completed_buckets: _Optional[int] = ...) -> None: ...

class KeyShare(_message.Message):
    __slots__ = ("rows", "key", "certificate", "signature", "completed_buckets")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    key: bytes
    certificate: bytes
    signature: bytes
    completed_buckets: int
    def __init__(self, rows: _Optional[int] = ..., key: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., completed_buckets: _Optional[int] = ...) -> None: ...

class KeyShares(_message.Message):
    __slots__ = ("shares", "first_bucket")
    class SharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: KeyShare
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[KeyShare, _Mapping]] = ...) -> None: ...
    SHARES_FIELD_NUMBER: _ClassVar[int]
    FIRST_BUCKET_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.MessageMap[str, KeyShare]
    first_bucket: int
    def __init__(self, shares: _Optional[_Mapping[str, KeyShare]] = ..., first_bucket: _Optional[int] = ...) -> None: ...

class OtOffer(_message.Message):
    __slots__ = ("offer",)
    OFFER_FIELD_NUMBER: _ClassVar[int]
    offer: bytes
    def __init__(self, offer: _Optional[bytes] = ...) -> None: ...

class OtAnswer(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: bytes
    def __init__(self, answer: _Optional[bytes] = ...) -> None: ...

class OprfMatrix(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyValueStore(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MatchTags(_message.Message):
    __slots__ = ("digest", "counts")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, digest: _Optional[bytes] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Aligned(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...

class SplitRows(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlindedElements(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvaluatedElements(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvaluationProof(_message.Message):
    __slots__ = ("commitment", "proof")
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    commitment: bytes
    proof: bytes
    def __init__(self, commitment: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    def __init__(self, checkpoint: _Optional[int] = ...) -> None: ...

class Resumed(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...

class ModelCommand(_message.Message):
    __slots__ = ("initialise", "restore_copy", "keep_copy", "drop_copy", "report_norms", "primal_step", "ascent_step", "write_checkpoint", "prune_checkpoints", "search_residue", "shrink", "test_reconstruction", "report_privacy_spent", "newton", "use_ensemble", "report_digest", "fit_bottom", "report_commitment")
    INITIALISE_FIELD_NUMBER: _ClassVar[int]
    RESTORE_COPY_FIELD_NUMBER: _ClassVar[int]
    KEEP_COPY_FIELD_NUMBER: _ClassVar[int]
    DROP_COPY_FIELD_NUMBER: _ClassVar[int]
    REPORT_NORMS_FIELD_NUMBER: _ClassVar[int]
    PRIMAL_STEP_FIELD_NUMBER: _ClassVar[int]
    ASCENT_STEP_FIELD_NUMBER: _ClassVar[int]
    WRITE_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PRUNE_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_RESIDUE_FIELD_NUMBER: _ClassVar[int]
    SHRINK_FIELD_NUMBER: _ClassVar[int]
    TEST_RECONSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    REPORT_PRIVACY_SPENT_FIELD_NUMBER: _ClassVar[int]
    NEWTON_FIELD_NUMBER: _ClassVar[int]
    USE_ENSEMBLE_FIELD_NUMBER: _ClassVar[int]
    REPORT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FIT_BOTTOM_FIELD_NUMBER: _ClassVar[int]
    REPORT_COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    initialise: Initialise
    restore_copy: RestoreCopy
    keep_copy: KeepCopy
    drop_copy: DropCopy
    report_norms: ReportNorms
    primal_step: PrimalStep
    ascent_step: AscentStep
    write_checkpoint: WriteCheckpoint
    prune_checkpoints: PruneCheckpoints
    search_residue: SearchResidue
    shrink: Shrink
    test_reconstruction: TestReconstruction
    report_privacy_spent: ReportPrivacySpent
    newton: Newton
    use_ensemble: UseEnsemble
    report_digest: ReportDigest
    fit_bottom: FitBottom
    report_commitment: ReportCommitment
    def __init__(self, initialise: _Optional[_Union[Initialise, _Mapping]] = ..., restore_copy: _Optional[_Union[RestoreCopy, _Mapping]] = ..., keep_copy: _Optional[_Union[KeepCopy, _Mapping]] = ..., drop_copy: _Optional[_Union[DropCopy, _Mapping]] = ..., report_norms: _Optional[_Union[ReportNorms, _Mapping]] = ..., primal_step: _Optional[_Union[PrimalStep, _Mapping]] = ..., ascent_step: _Optional[_Union[AscentStep, _Mapping]] = ..., write_checkpoint: _Optional[_Union[WriteCheckpoint, _Mapping]] = ..., prune_checkpoints: _Optional[_Union[PruneCheckpoints, _Mapping]] = ..., search_residue: _Optional[_Union[SearchResidue, _Mapping]] = ..., shrink: _Optional[_Union[Shrink, _Mapping]] = ..., test_reconstruction: _Optional[_Union[TestReconstruction, _Mapping]] = ..., report_privacy_spent: _Optional[_Union[ReportPrivacySpent, _Mapping]] = ..., newton: _Optional[_Union[Newton, _Mapping]] = ..., use_ensemble: _Optional[_Union[UseEnsemble, _Mapping]] = ..., report_digest: _Optional[_Union[ReportDigest, _Mapping]] = ..., fit_bottom: _Optional[_Union[FitBottom, _Mapping]] = ..., report_commitment: _Optional[_Union[ReportCommitment, _Mapping]] = ...) -> None: ...

class Initialise(_message.Message):
    __slots__ = ("stream", "preprocessing_rows", "shard", "rule", "sample", "from_kept")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PREPROCESSING_ROWS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    FROM_KEPT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    preprocessing_rows: Rows
    shard: int
    rule: UpdateRule
    sample: Sample
    from_kept: bool
    def __init__(self, stream: _Optional[str] = ..., preprocessing_rows: _Optional[_Union[Rows, str]] = ..., shard: _Optional[int] = ..., rule: _Optional[_Union[UpdateRule, _Mapping]] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ..., from_kept: _Optional[bool] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("stream", "share")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    stream: str
    share: float
    def __init__(self, stream: _Optional[str] = ..., share: _Optional[float] = ...) -> None: ...

class UpdateRule(_message.Message):
    __slots__ = ("optimiser", "learning_rate", "momentum", "weight_decay", "proximal")
    OPTIMISER_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    PROXIMAL_FIELD_NUMBER: _ClassVar[int]
    optimiser: OptimiserKind
    learning_rate: float
    momentum: float
    weight_decay: float
    proximal: float
    def __init__(self, optimiser: _Optional[_Union[OptimiserKind, str]] = ..., learning_rate: _Optional[float] = ..., momentum: _Optional[float] = ..., weight_decay: _Optional[float] = ..., proximal: _Optional[float] = ...) -> None: ...

class FitBottom(_message.Message):
    __slots__ = ("rows", "steps", "fit")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    steps: int
    fit: LocalFit
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., steps: _Optional[int] = ..., fit: _Optional[_Union[LocalFit, _Mapping]] = ...) -> None: ...

class LocalFit(_message.Message):
    __slots__ = ("codes", "epochs", "batch")
    CODES_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    codes: Codes
    epochs: int
    batch: int
    def __init__(self, codes: _Optional[_Union[Codes, str]] = ..., epochs: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class RestoreCopy(_message.Message):
    __slots__ = ("slot", "stream", "rule", "sample")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    slot: str
    stream: str
    rule: UpdateRule
    sample: Sample
    def __init__(self, slot: _Optional[str] = ..., stream: _Optional[str] = ..., rule: _Optional[_Union[UpdateRule, _Mapping]] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ...) -> None: ...

class KeepCopy(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class DropCopy(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class UseEnsemble(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slots: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportDigest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class ReportCommitment(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportNorms(_message.Message):
    __slots__ = ("slot", "anchor", "proximal")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    PROXIMAL_FIELD_NUMBER: _ClassVar[int]
    slot: str
    anchor: str
    proximal: float
    def __init__(self, slot: _Optional[str] = ..., anchor: _Optional[str] = ..., proximal: _Optional[float] = ...) -> None: ...

class TestReconstruction(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class SearchResidue(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Shrink(_message.Message):
    __slots__ = ("stream", "bottom", "top")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BOTTOM_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    stream: str
    bottom: float
    top: float
    def __init__(self, stream: _Optional[str] = ..., bottom: _Optional[float] = ..., top: _Optional[float] = ...) -> None: ...

class AscentStep(_message.Message):
    __slots__ = ("step_size",)
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    def __init__(self, step_size: _Optional[float] = ...) -> None: ...

class WriteCheckpoint(_message.Message):
    __slots__ = ("checkpoint", "version")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    version: Version
    def __init__(self, checkpoint: _Optional[int] = ..., version: _Optional[_Union[Version, _Mapping]] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("made_by", "made_at", "parent", "requests", "method")
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    made_by: MadeBy
    made_at: str
    parent: int
    requests: _containers.RepeatedScalarFieldContainer[str]
    method: str
    def __init__(self, made_by: _Optional[_Union[MadeBy, str]] = ..., made_at: _Optional[str] = ..., parent: _Optional[int] = ..., requests: _Optional[_Iterable[str]] = ..., method: _Optional[str] = ...) -> None: ...

class PruneCheckpoints(_message.Message):
    __slots__ = ("checkpoint", "versions")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    versions: bool
    def __init__(self, checkpoint: _Optional[int] = ..., versions: _Optional[bool] = ...) -> None: ...

class ReportPrivacySpent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Newton(_message.Message):
    __slots__ = ("regularise", "start", "step", "direction", "apply", "noise")
    class Regularise(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Start(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Step(_message.Message):
        __slots__ = ("length",)
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        length: float
        def __init__(self, length: _Optional[float] = ...) -> None: ...
    class Direction(_message.Message):
        __slots__ = ("momentum",)
        MOMENTUM_FIELD_NUMBER: _ClassVar[int]
        momentum: float
        def __init__(self, momentum: _Optional[float] = ...) -> None: ...
    class Apply(_message.Message):
        __slots__ = ("length",)
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        length: float
        def __init__(self, length: _Optional[float] = ...) -> None: ...
    class Noise(_message.Message):
        __slots__ = ("sigma",)
        SIGMA_FIELD_NUMBER: _ClassVar[int]
        sigma: float
        def __init__(self, sigma: _Optional[float] = ...) -> None: ...
    REGULARISE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    APPLY_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    regularise: Newton.Regularise
    start: Newton.Start
    step: Newton.Step
    direction: Newton.Direction
    apply: Newton.Apply
    noise: Newton.Noise
    def __init__(self, regularise: _Optional[_Union[Newton.Regularise, _Mapping]] = ..., start: _Optional[_Union[Newton.Start, _Mapping]] = ..., step: _Optional[_Union[Newton.Step, _Mapping]] = ..., direction: _Optional[_Union[Newton.Direction, _Mapping]] = ..., apply: _Optional[_Union[Newton.Apply, _Mapping]] = ..., noise: _Optional[_Union[Newton.Noise, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("report", "purged", "residue", "spent")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    RESIDUE_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    report: BlockReport
    purged: _containers.RepeatedScalarFieldContainer[str]
    residue: _containers.RepeatedScalarFieldContainer[str]
    spent: PrivacySpent
    def __init__(self, report: _Optional[_Union[BlockReport, _Mapping]] = ..., purged: _Optional[_Iterable[str]] = ..., residue: _Optional[_Iterable[str]] = ..., spent: _Optional[_Union[PrivacySpent, _Mapping]] = ...) -> None: ...

class PrivacySpent(_message.Message):
    __slots__ = ("releases", "square")
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    SQUARE_FIELD_NUMBER: _ClassVar[int]
    releases: int
    square: float
    def __init__(self, releases: _Optional[int] = ..., square: _Optional[float] = ...) -> None: ...

class BlockReport(_message.Message):
    __slots__ = ("held_square", "change_square", "diverged", "distance_square", "norm_square", "cosine", "rank", "inner_product", "residual_square", "proximal_square", "digest", "commitment")
    HELD_SQUARE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_SQUARE_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_SQUARE_FIELD_NUMBER: _ClassVar[int]
    NORM_SQUARE_FIELD_NUMBER: _ClassVar[int]
    COSINE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INNER_PRODUCT_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_SQUARE_FIELD_NUMBER: _ClassVar[int]
    PROXIMAL_SQUARE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    held_square: float
    change_square: float
    diverged: bool
    distance_square: float
    norm_square: float
    cosine: float
    rank: float
    inner_product: float
    residual_square: float
    proximal_square: float
    digest: bytes
    commitment: bytes
    def __init__(self, held_square: _Optional[float] = ..., change_square: _Optional[float] = ..., diverged: _Optional[bool] = ..., distance_square: _Optional[float] = ..., norm_square: _Optional[float] = ..., cosine: _Optional[float] = ..., rank: _Optional[float] = ..., inner_product: _Optional[float] = ..., residual_square: _Optional[float] = ..., proximal_square: _Optional[float] = ..., digest: _Optional[bytes] = ..., commitment: _Optional[bytes] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("rows", "order", "epoch", "size", "index")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    order: Order
    epoch: int
    size: int
    index: int
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., order: _Optional[_Union[Order, str]] = ..., epoch: _Optional[int] = ..., size: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class Evaluate(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: BatchRequest
    def __init__(self, batch: _Optional[_Union[BatchRequest, _Mapping]] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("report", "withheld")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    report: BlockReport
    withheld: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, report: _Optional[_Union[BlockReport, _Mapping]] = ..., withheld: _Optional[_Iterable[int]] = ...) -> None: ...

class Gradient(_message.Message):
    __slots__ = ("descend", "hold", "primal_step", "accumulate", "add_to_held")
    DESCEND_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    PRIMAL_STEP_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATE_FIELD_NUMBER: _ClassVar[int]
    ADD_TO_HELD_FIELD_NUMBER: _ClassVar[int]
    descend: Descend
    hold: Hold
    primal_step: PrimalStep
    accumulate: Accumulate
    add_to_held: AddToHeld
    def __init__(self, descend: _Optional[_Union[Descend, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., primal_step: _Optional[_Union[PrimalStep, _Mapping]] = ..., accumulate: _Optional[_Union[Accumulate, _Mapping]] = ..., add_to_held: _Optional[_Union[AddToHeld, _Mapping]] = ...) -> None: ...

class Descend(_message.Message):
    __slots__ = ("scale",)
    SCALE_FIELD_NUMBER: _ClassVar[int]
    scale: float
    def __init__(self, scale: _Optional[float] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Accumulate(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddToHeld(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrimalStep(_message.Message):
    __slots__ = ("step_size", "multiplier", "literal", "noise")
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    multiplier: float
    literal: LiteralDual
    noise: PrimalNoise
    def __init__(self, step_size: _Optional[float] = ..., multiplier: _Optional[float] = ..., literal: _Optional[_Union[LiteralDual, _Mapping]] = ..., noise: _Optional[_Union[PrimalNoise, _Mapping]] = ...) -> None: ...

class PrimalNoise(_message.Message):
    __slots__ = ("deviation", "draw")
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    DRAW_FIELD_NUMBER: _ClassVar[int]
    deviation: float
    draw: int
    def __init__(self, deviation: _Optional[float] = ..., draw: _Optional[int] = ...) -> None: ...

class LiteralDual(_message.Message):
    __slots__ = ("step_size", "threshold", "max")
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    threshold: float
    max: float
    def __init__(self, step_size: _Optional[float] = ..., threshold: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("gradient", "next_batch")
    GRADIENT_FIELD_NUMBER: _ClassVar[int]
    NEXT_BATCH_FIELD_NUMBER: _ClassVar[int]
    gradient: Gradient
    next_batch: BatchRequest
    def __init__(self, gradient: _Optional[_Union[Gradient, _Mapping]] = ..., next_batch: _Optional[_Union[BatchRequest, _Mapping]] = ...) -> None: ...

class ForgetRows(_message.Message):
    __slots__ = ("requests", "corrects")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CORRECTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedScalarFieldContainer[str]
    corrects: bool
    def __init__(self, requests: _Optional[_Iterable[str]] = ..., corrects: _Optional[bool] = ...) -> None: ...

class Purge(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PlantTrigger(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Predict(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SyncJournal(_message.Message):
    __slots__ = ("counts",)
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class JournalEvents(_message.Message):
    __slots__ = ("counts",)
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class LoadVector(_message.Message):
    __slots__ = ("slot", "start", "size")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    slot: str
    start: int
    size: int
    def __init__(self, slot: _Optional[str] = ..., start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class RunTask(_message.Message):
    __slots__ = ("rows", "slots", "task")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    slots: _containers.RepeatedScalarFieldContainer[str]
    task: LocalTask
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., slots: _Optional[_Iterable[str]] = ..., task: _Optional[_Union[LocalTask, _Mapping]] = ...) -> None: ...

class LocalTask(_message.Message):
    __slots__ = ("aim", "stream", "epochs", "batch", "learning_rate", "momentum", "weight_decay", "steps", "proximal", "clip", "teacher_mode", "teacher_weights", "temperature", "distil", "gate", "noise", "text")
    class Aim(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AIM_UNSPECIFIED: _ClassVar[LocalTask.Aim]
        FIT: _ClassVar[LocalTask.Aim]
        UNLEARNING_LOSS: _ClassVar[LocalTask.Aim]
        ASCENT: _ClassVar[LocalTask.Aim]
        ELASTIC: _ClassVar[LocalTask.Aim]
        TEACHERS: _ClassVar[LocalTask.Aim]
        FISHER: _ClassVar[LocalTask.Aim]
        INPUTS: _ClassVar[LocalTask.Aim]
        DISTIL: _ClassVar[LocalTask.Aim]
        PERSONAL_MODEL: _ClassVar[LocalTask.Aim]
        GATED: _ClassVar[LocalTask.Aim]
        CLASSES: _ClassVar[LocalTask.Aim]
        ERROR_MAXIMISING_NOISE: _ClassVar[LocalTask.Aim]
        ERROR_MINIMISING_NOISE: _ClassVar[LocalTask.Aim]
        PSEUDO_LABELS: _ClassVar[LocalTask.Aim]
        TEXT: _ClassVar[LocalTask.Aim]
    AIM_UNSPECIFIED: LocalTask.Aim
    FIT: LocalTask.Aim
    UNLEARNING_LOSS: LocalTask.Aim
    ASCENT: LocalTask.Aim
    ELASTIC: LocalTask.Aim
    TEACHERS: LocalTask.Aim
    FISHER: LocalTask.Aim
    INPUTS: LocalTask.Aim
    DISTIL: LocalTask.Aim
    PERSONAL_MODEL: LocalTask.Aim
    GATED: LocalTask.Aim
    CLASSES: LocalTask.Aim
    ERROR_MAXIMISING_NOISE: LocalTask.Aim
    ERROR_MINIMISING_NOISE: LocalTask.Aim
    PSEUDO_LABELS: LocalTask.Aim
    TEXT: LocalTask.Aim
    class TeacherMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TEACHER_MODE_UNSPECIFIED: _ClassVar[LocalTask.TeacherMode]
        LITERAL: _ClassVar[LocalTask.TeacherMode]
        REPEL: _ClassVar[LocalTask.TeacherMode]
        CLEAN_TEACHER: _ClassVar[LocalTask.TeacherMode]
        BAD_TEACHER: _ClassVar[LocalTask.TeacherMode]
        GA: _ClassVar[LocalTask.TeacherMode]
    TEACHER_MODE_UNSPECIFIED: LocalTask.TeacherMode
    LITERAL: LocalTask.TeacherMode
    REPEL: LocalTask.TeacherMode
    CLEAN_TEACHER: LocalTask.TeacherMode
    BAD_TEACHER: LocalTask.TeacherMode
    GA: LocalTask.TeacherMode
    AIM_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PROXIMAL_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    TEACHER_MODE_FIELD_NUMBER: _ClassVar[int]
    TEACHER_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    DISTIL_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    aim: LocalTask.Aim
    stream: str
    epochs: int
    batch: int
    learning_rate: float
    momentum: float
    weight_decay: float
    steps: int
    proximal: float
    clip: float
    teacher_mode: LocalTask.TeacherMode
    teacher_weights: _containers.RepeatedScalarFieldContainer[float]
    temperature: float
    distil: DistillationPlan
    gate: GatePlan
    noise: ErrorNoisePlan
    text: TextTask
    def __init__(self, aim: _Optional[_Union[LocalTask.Aim, str]] = ..., stream: _Optional[str] = ..., epochs: _Optional[int] = ..., batch: _Optional[int] = ..., learning_rate: _Optional[float] = ..., momentum: _Optional[float] = ..., weight_decay: _Optional[float] = ..., steps: _Optional[int] = ..., proximal: _Optional[float] = ..., clip: _Optional[float] = ..., teacher_mode: _Optional[_Union[LocalTask.TeacherMode, str]] = ..., teacher_weights: _Optional[_Iterable[float]] = ..., temperature: _Optional[float] = ..., distil: _Optional[_Union[DistillationPlan, _Mapping]] = ..., gate: _Optional[_Union[GatePlan, _Mapping]] = ..., noise: _Optional[_Union[ErrorNoisePlan, _Mapping]] = ..., text: _Optional[_Union[TextTask, _Mapping]] = ...) -> None: ...

class TextTask(_message.Message):
    __slots__ = ("objective", "optimiser", "gamma", "alpha", "beta", "delta", "retain", "stop_at_uniform", "layer", "steering", "multiplier", "max_loss")
    class Objective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OBJECTIVE_UNSPECIFIED: _ClassVar[TextTask.Objective]
        LEARN: _ClassVar[TextTask.Objective]
        GRAD_ASCENT: _ClassVar[TextTask.Objective]
        GRAD_DIFF: _ClassVar[TextTask.Objective]
        NPO: _ClassVar[TextTask.Objective]
        SIMNPO: _ClassVar[TextTask.Objective]
        RMU: _ClassVar[TextTask.Objective]
        PRIMAL_DUAL: _ClassVar[TextTask.Objective]
    OBJECTIVE_UNSPECIFIED: TextTask.Objective
    LEARN: TextTask.Objective
    GRAD_ASCENT: TextTask.Objective
    GRAD_DIFF: TextTask.Objective
    NPO: TextTask.Objective
    SIMNPO: TextTask.Objective
    RMU: TextTask.Objective
    PRIMAL_DUAL: TextTask.Objective
    class Optimiser(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPTIMISER_UNSPECIFIED: _ClassVar[TextTask.Optimiser]
        ADAMW: _ClassVar[TextTask.Optimiser]
        SGD: _ClassVar[TextTask.Optimiser]
    OPTIMISER_UNSPECIFIED: TextTask.Optimiser
    ADAMW: TextTask.Optimiser
    SGD: TextTask.Optimiser
    class RetainTerm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RETAIN_TERM_UNSPECIFIED: _ClassVar[TextTask.RetainTerm]
        NLL: _ClassVar[TextTask.RetainTerm]
        KL: _ClassVar[TextTask.RetainTerm]
    RETAIN_TERM_UNSPECIFIED: TextTask.RetainTerm
    NLL: TextTask.RetainTerm
    KL: TextTask.RetainTerm
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    OPTIMISER_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    STOP_AT_UNIFORM_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    STEERING_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSS_FIELD_NUMBER: _ClassVar[int]
    objective: TextTask.Objective
    optimiser: TextTask.Optimiser
    gamma: float
    alpha: float
    beta: float
    delta: float
    retain: TextTask.RetainTerm
    stop_at_uniform: bool
    layer: int
    steering: float
    multiplier: float
    max_loss: float
    def __init__(self, objective: _Optional[_Union[TextTask.Objective, str]] = ..., optimiser: _Optional[_Union[TextTask.Optimiser, str]] = ..., gamma: _Optional[float] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ..., delta: _Optional[float] = ..., retain: _Optional[_Union[TextTask.RetainTerm, str]] = ..., stop_at_uniform: _Optional[bool] = ..., layer: _Optional[int] = ..., steering: _Optional[float] = ..., multiplier: _Optional[float] = ..., max_loss: _Optional[float] = ...) -> None: ...

class DistillationPlan(_message.Message):
    __slots__ = ("student_steps", "temperature", "divergence", "attention", "after_prompt", "sign")
    class FeatureSign(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FEATURE_SIGN_UNSPECIFIED: _ClassVar[DistillationPlan.FeatureSign]
        ALIGN: _ClassVar[DistillationPlan.FeatureSign]
        REPEL: _ClassVar[DistillationPlan.FeatureSign]
        ORTHOGONAL: _ClassVar[DistillationPlan.FeatureSign]
    FEATURE_SIGN_UNSPECIFIED: DistillationPlan.FeatureSign
    ALIGN: DistillationPlan.FeatureSign
    REPEL: DistillationPlan.FeatureSign
    ORTHOGONAL: DistillationPlan.FeatureSign
    STUDENT_STEPS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_PROMPT_FIELD_NUMBER: _ClassVar[int]
    SIGN_FIELD_NUMBER: _ClassVar[int]
    student_steps: int
    temperature: float
    divergence: float
    attention: float
    after_prompt: bool
    sign: DistillationPlan.FeatureSign
    def __init__(self, student_steps: _Optional[int] = ..., temperature: _Optional[float] = ..., divergence: _Optional[float] = ..., attention: _Optional[float] = ..., after_prompt: _Optional[bool] = ..., sign: _Optional[_Union[DistillationPlan.FeatureSign, str]] = ...) -> None: ...

class GatePlan(_message.Message):
    __slots__ = ("student_steps", "temperature", "attention", "threshold", "classes")
    STUDENT_STEPS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    student_steps: int
    temperature: float
    attention: float
    threshold: float
    classes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, student_steps: _Optional[int] = ..., temperature: _Optional[float] = ..., attention: _Optional[float] = ..., threshold: _Optional[float] = ..., classes: _Optional[_Iterable[int]] = ...) -> None: ...

class ErrorNoisePlan(_message.Message):
    __slots__ = ("rows", "steps", "learning_rate", "penalty")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    PENALTY_FIELD_NUMBER: _ClassVar[int]
    rows: int
    steps: int
    learning_rate: float
    penalty: float
    def __init__(self, rows: _Optional[int] = ..., steps: _Optional[int] = ..., learning_rate: _Optional[float] = ..., penalty: _Optional[float] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class LocalUpdate(_message.Message):
    __slots__ = ("rows", "loss", "steps", "tokens")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    loss: float
    steps: int
    tokens: int
    def __init__(self, rows: _Optional[int] = ..., loss: _Optional[float] = ..., steps: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class EvaluateRows(_message.Message):
    __slots__ = ("rows", "parameters")
    class ParameterSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PARAMETER_SOURCE_UNSPECIFIED: _ClassVar[EvaluateRows.ParameterSource]
        PERSONAL: _ClassVar[EvaluateRows.ParameterSource]
        SENT: _ClassVar[EvaluateRows.ParameterSource]
    PARAMETER_SOURCE_UNSPECIFIED: EvaluateRows.ParameterSource
    PERSONAL: EvaluateRows.ParameterSource
    SENT: EvaluateRows.ParameterSource
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    parameters: EvaluateRows.ParameterSource
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., parameters: _Optional[_Union[EvaluateRows.ParameterSource, str]] = ...) -> None: ...

class Metrics(_message.Message):
    __slots__ = ("rows", "correct", "loss", "histogram", "probability")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    rows: int
    correct: int
    loss: float
    histogram: _containers.RepeatedScalarFieldContainer[int]
    probability: float
    def __init__(self, rows: _Optional[int] = ..., correct: _Optional[int] = ..., loss: _Optional[float] = ..., histogram: _Optional[_Iterable[int]] = ..., probability: _Optional[float] = ...) -> None: ...

class SelectRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: str
    def __init__(self, request: _Optional[str] = ...) -> None: ...

class KeepVersion(_message.Message):
    __slots__ = ("number", "version")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    number: int
    version: Version
    def __init__(self, number: _Optional[int] = ..., version: _Optional[_Union[Version, _Mapping]] = ...) -> None: ...

class SwitchBranch(_message.Message):
    __slots__ = ("branch", "parent")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    branch: str
    parent: str
    def __init__(self, branch: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...

class StartSum(_message.Message):
    __slots__ = ("members", "threshold", "context")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    threshold: int
    context: bytes
    def __init__(self, members: _Optional[_Iterable[str]] = ..., threshold: _Optional[int] = ..., context: _Optional[bytes] = ...) -> None: ...

class MaskKeys(_message.Message):
    __slots__ = ("masking", "sealing", "certificate", "signature")
    MASKING_FIELD_NUMBER: _ClassVar[int]
    SEALING_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    masking: bytes
    sealing: bytes
    certificate: bytes
    signature: bytes
    def __init__(self, masking: _Optional[bytes] = ..., sealing: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class MemberKeys(_message.Message):
    __slots__ = ("keys",)
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: MaskKeys
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[MaskKeys, _Mapping]] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.MessageMap[str, MaskKeys]
    def __init__(self, keys: _Optional[_Mapping[str, MaskKeys]] = ...) -> None: ...

class SealedShares(_message.Message):
    __slots__ = ("shares",)
    class SharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SHARES_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.ScalarMap[str, bytes]
    def __init__(self, shares: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class ShareSeed(_message.Message):
    __slots__ = ("shares",)
    class SharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SHARES_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.ScalarMap[str, bytes]
    def __init__(self, shares: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class Present(_message.Message):
    __slots__ = ("members", "digest")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    digest: bytes
    def __init__(self, members: _Optional[_Iterable[str]] = ..., digest: _Optional[bytes] = ...) -> None: ...

class RevealedShares(_message.Message):
    __slots__ = ("seeds", "keys")
    class SeedsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    seeds: _containers.ScalarMap[str, bytes]
    keys: _containers.ScalarMap[str, bytes]
    def __init__(self, seeds: _Optional[_Mapping[str, bytes]] = ..., keys: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class SealingKey(_message.Message):
    __slots__ = ("sealing", "certificate", "signature")
    SEALING_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    sealing: bytes
    certificate: bytes
    signature: bytes
    def __init__(self, sealing: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ShareKey(_message.Message):
    __slots__ = ("keys",)
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SealingKey
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SealingKey, _Mapping]] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.MessageMap[str, SealingKey]
    def __init__(self, keys: _Optional[_Mapping[str, SealingKey]] = ...) -> None: ...

class SumKey(_message.Message):
    __slots__ = ("size", "sealed", "sealing", "certificate", "signature")
    class SealedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    SEALING_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    size: int
    sealed: _containers.ScalarMap[str, bytes]
    sealing: bytes
    certificate: bytes
    signature: bytes
    def __init__(self, size: _Optional[int] = ..., sealed: _Optional[_Mapping[str, bytes]] = ..., sealing: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class CiphertextSum(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Approve(_message.Message):
    __slots__ = ("certificate", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Approvals(_message.Message):
    __slots__ = ("approvals",)
    class ApprovalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Approve
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Approve, _Mapping]] = ...) -> None: ...
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.MessageMap[str, Approve]
    def __init__(self, approvals: _Optional[_Mapping[str, Approve]] = ...) -> None: ...

class DecryptedSum(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
