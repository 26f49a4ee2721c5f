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
    REFERENCE: _ClassVar[Task]
    FINE_TUNE: _ClassVar[Task]
    ASCEND: _ClassVar[Task]
    CLOSE: _ClassVar[Task]
    CHECKPOINT: _ClassVar[Task]
    RELEARN: _ClassVar[Task]
    PREDICT: _ClassVar[Task]
    RELABEL: _ClassVar[Task]
    SHRINK_PERTURB: _ClassVar[Task]
    TOP_ONLY: _ClassVar[Task]
    CORRECT: _ClassVar[Task]
    CVFU: _ClassVar[Task]
    ROUND: _ClassVar[Task]
    RECOVER: _ClassVar[Task]

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
    LEARN: _ClassVar[Rows]
    RETAIN: _ClassVar[Rows]
    FORGOTTEN: _ClassVar[Rows]
    VALIDATION: _ClassVar[Rows]
    TEST: _ClassVar[Rows]
    SAMPLE: _ClassVar[Rows]
    HALF: _ClassVar[Rows]
    OTHER_HALF: _ClassVar[Rows]
    TRIGGERED: _ClassVar[Rows]
    PORTION: _ClassVar[Rows]
    PLANTED: _ClassVar[Rows]
    MEMBERS: _ClassVar[Rows]
    NON_MEMBERS: _ClassVar[Rows]

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_UNSPECIFIED: _ClassVar[Order]
    BY_INDEX: _ClassVar[Order]
    SHUFFLED: _ClassVar[Order]

class Aim(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AIM_UNSPECIFIED: _ClassVar[Aim]
    FIT: _ClassVar[Aim]
    UNLEARN_LOSS: _ClassVar[Aim]
    ASCENT: _ClassVar[Aim]
    ELASTIC: _ClassVar[Aim]
    TEACHERS: _ClassVar[Aim]
    FISHER: _ClassVar[Aim]
    INPUTS: _ClassVar[Aim]
    DISTIL: _ClassVar[Aim]
    TELL_OWN: _ClassVar[Aim]
    GATED: _ClassVar[Aim]
    TELL_CLASSES: _ClassVar[Aim]
    WORST_NOISE: _ClassVar[Aim]
    BEST_NOISE: _ClassVar[Aim]
    PSEUDO_LABELS: _ClassVar[Aim]
    TEXT: _ClassVar[Aim]

class TextObjective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_OBJECTIVE_UNSPECIFIED: _ClassVar[TextObjective]
    LEARN_TEXTS: _ClassVar[TextObjective]
    GRAD_ASCENT: _ClassVar[TextObjective]
    GRAD_DIFF: _ClassVar[TextObjective]
    NPO: _ClassVar[TextObjective]
    SIMNPO: _ClassVar[TextObjective]
    RMU: _ClassVar[TextObjective]
    PRIMAL_DUAL: _ClassVar[TextObjective]

class TeacherMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEACHER_MODE_UNSPECIFIED: _ClassVar[TeacherMode]
    LITERAL: _ClassVar[TeacherMode]
    REPEL: _ClassVar[TeacherMode]
    CLEAN_TEACHER: _ClassVar[TeacherMode]
    BAD_TEACHER: _ClassVar[TeacherMode]
    GA: _ClassVar[TeacherMode]

class FeatureSign(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_SIGN_UNSPECIFIED: _ClassVar[FeatureSign]
    ALIGN_FEATURES: _ClassVar[FeatureSign]
    REPEL_FEATURES: _ClassVar[FeatureSign]
    ORTHOGONAL_FEATURES: _ClassVar[FeatureSign]
TASK_UNSPECIFIED: Task
JOIN: Task
ALIGN: Task
TRAIN: Task
EVALUATE: Task
UNLEARN: Task
REFERENCE: Task
FINE_TUNE: Task
ASCEND: Task
CLOSE: Task
CHECKPOINT: Task
RELEARN: Task
PREDICT: Task
RELABEL: Task
SHRINK_PERTURB: Task
TOP_ONLY: Task
CORRECT: Task
CVFU: Task
ROUND: Task
RECOVER: Task
DTYPE_UNSPECIFIED: DType
FLOAT32: DType
FLOAT64: DType
INT64: DType
BYTES: DType
ROWS_UNSPECIFIED: Rows
LEARN: Rows
RETAIN: Rows
FORGOTTEN: Rows
VALIDATION: Rows
TEST: Rows
SAMPLE: Rows
HALF: Rows
OTHER_HALF: Rows
TRIGGERED: Rows
PORTION: Rows
PLANTED: Rows
MEMBERS: Rows
NON_MEMBERS: Rows
ORDER_UNSPECIFIED: Order
BY_INDEX: Order
SHUFFLED: Order
AIM_UNSPECIFIED: Aim
FIT: Aim
UNLEARN_LOSS: Aim
ASCENT: Aim
ELASTIC: Aim
TEACHERS: Aim
FISHER: Aim
INPUTS: Aim
DISTIL: Aim
TELL_OWN: Aim
GATED: Aim
TELL_CLASSES: Aim
WORST_NOISE: Aim
BEST_NOISE: Aim
PSEUDO_LABELS: Aim
TEXT: Aim
TEXT_OBJECTIVE_UNSPECIFIED: TextObjective
LEARN_TEXTS: TextObjective
GRAD_ASCENT: TextObjective
GRAD_DIFF: TextObjective
NPO: TextObjective
SIMNPO: TextObjective
RMU: TextObjective
PRIMAL_DUAL: TextObjective
TEACHER_MODE_UNSPECIFIED: TeacherMode
LITERAL: TeacherMode
REPEL: TeacherMode
CLEAN_TEACHER: TeacherMode
BAD_TEACHER: TeacherMode
GA: TeacherMode
FEATURE_SIGN_UNSPECIFIED: FeatureSign
ALIGN_FEATURES: FeatureSign
REPEL_FEATURES: FeatureSign
ORTHOGONAL_FEATURES: FeatureSign

class Header(_message.Message):
    __slots__ = ("envelope", "tensors", "hello", "welcome", "accept", "abort", "goodbye", "open", "share", "shares", "offer", "answer", "matrix", "store", "matches", "aligned", "blinded", "evaluated", "proof", "arrange", "done", "ask", "embedding", "step", "gradient", "forget", "purge", "show", "stamp", "resume", "resumed", "look", "load", "teach", "change", "learned", "read", "measured", "attend", "follow", "gather", "mask_keys", "pairs", "sealed", "deal", "there", "opened", "seal_key", "entrust", "sum_key", "total", "assent", "assents", "unsealed")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    ALIGNED_FIELD_NUMBER: _ClassVar[int]
    BLINDED_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    ARRANGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    SHOW_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    TEACH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    LEARNED_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    ATTEND_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    GATHER_FIELD_NUMBER: _ClassVar[int]
    MASK_KEYS_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    DEAL_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SEAL_KEY_FIELD_NUMBER: _ClassVar[int]
    ENTRUST_FIELD_NUMBER: _ClassVar[int]
    SUM_KEY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ASSENT_FIELD_NUMBER: _ClassVar[int]
    ASSENTS_FIELD_NUMBER: _ClassVar[int]
    UNSEALED_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    tensors: _containers.RepeatedCompositeFieldContainer[TensorShape]
    hello: Hello
    welcome: Welcome
    accept: Accept
    abort: Abort
    goodbye: Goodbye
    open: Open
    share: Share
    shares: Shares
    offer: Offer
    answer: Answer
    matrix: Matrix
    store: Store
    matches: Matches
    aligned: Aligned
    blinded: Blinded
    evaluated: Evaluated
    proof: Proof
    arrange: Arrange
    done: Done
    ask: Ask
    embedding: Embedding
    step: Step
    gradient: Gradient
    forget: Forget
    purge: Purge
    show: Show
    stamp: Stamp
    resume: Resume
    resumed: Resumed
    look: Look
    load: Load
    teach: Teach
    change: Change
    learned: Learned
    read: Read
    measured: Measured
    attend: Attend
    follow: Follow
    gather: Gather
    mask_keys: MaskKeys
    pairs: Pairs
    sealed: Sealed
    deal: Deal
    there: There
    opened: Opened
    seal_key: SealKey
    entrust: Entrust
    sum_key: SumKey
    total: Total
    assent: Assent
    assents: Assents
    unsealed: Unsealed
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., tensors: _Optional[_Iterable[_Union[TensorShape, _Mapping]]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., accept: _Optional[_Union[Accept, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., shares: _Optional[_Union[Shares, _Mapping]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., matrix: _Optional[_Union[Matrix, _Mapping]] = ..., store: _Optional[_Union[Store, _Mapping]] = ..., matches: _Optional[_Union[Matches, _Mapping]] = ..., aligned: _Optional[_Union[Aligned, _Mapping]] = ..., blinded: _Optional[_Union[Blinded, _Mapping]] = ..., evaluated: _Optional[_Union[Evaluated, _Mapping]] = ..., proof: _Optional[_Union[Proof, _Mapping]] = ..., arrange: _Optional[_Union[Arrange, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., gradient: _Optional[_Union[Gradient, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., purge: _Optional[_Union[Purge, _Mapping]] = ..., show: _Optional[_Union[Show, _Mapping]] = ..., stamp: _Optional[_Union[Stamp, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ..., look: _Optional[_Union[Look, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., teach: _Optional[_Union[Teach, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ..., learned: _Optional[_Union[Learned, _Mapping]] = ..., read: _Optional[_Union[Read, _Mapping]] = ..., measured: _Optional[_Union[Measured, _Mapping]] = ..., attend: _Optional[_Union[Attend, _Mapping]] = ..., follow: _Optional[_Union[Follow, _Mapping]] = ..., gather: _Optional[_Union[Gather, _Mapping]] = ..., mask_keys: _Optional[_Union[MaskKeys, _Mapping]] = ..., pairs: _Optional[_Union[Pairs, _Mapping]] = ..., sealed: _Optional[_Union[Sealed, _Mapping]] = ..., deal: _Optional[_Union[Deal, _Mapping]] = ..., there: _Optional[_Union[There, _Mapping]] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., seal_key: _Optional[_Union[SealKey, _Mapping]] = ..., entrust: _Optional[_Union[Entrust, _Mapping]] = ..., sum_key: _Optional[_Union[SumKey, _Mapping]] = ..., total: _Optional[_Union[Total, _Mapping]] = ..., assent: _Optional[_Union[Assent, _Mapping]] = ..., assents: _Optional[_Union[Assents, _Mapping]] = ..., unsealed: _Optional[_Union[Unsealed, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("oldest_version", "newest_version", "nonce", "agreement", "clock", "software", "run", "checkpoints", "prediction")
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    oldest_version: int
    newest_version: int
    nonce: bytes
    agreement: str
    clock: float
    software: str
    run: bytes
    checkpoints: _containers.RepeatedScalarFieldContainer[int]
    prediction: Prediction
    def __init__(self, oldest_version: _Optional[int] = ..., newest_version: _Optional[int] = ..., nonce: _Optional[bytes] = ..., agreement: _Optional[str] = ..., clock: _Optional[float] = ..., software: _Optional[str] = ..., run: _Optional[bytes] = ..., checkpoints: _Optional[_Iterable[int]] = ..., prediction: _Optional[_Union[Prediction, _Mapping]] = ...) -> None: ...

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

class Open(_message.Message):
    __slots__ = ("rows", "done")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    rows: int
    done: int
    def __init__(self, rows: _Optional[int] = ..., done: _Optional[int] = ...) -> None: ...

class Share(_message.Message):
    __slots__ = ("rows", "key", "certificate", "signature", "done")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    rows: int
    key: bytes
    certificate: bytes
    signature: bytes
    done: int
    def __init__(self, rows: _Optional[int] = ..., key: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., done: _Optional[int] = ...) -> None: ...

class Shares(_message.Message):
    __slots__ = ("shares", "done")
    class SharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Share
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Share, _Mapping]] = ...) -> None: ...
    SHARES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.MessageMap[str, Share]
    done: int
    def __init__(self, shares: _Optional[_Mapping[str, Share]] = ..., done: _Optional[int] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("offer",)
    OFFER_FIELD_NUMBER: _ClassVar[int]
    offer: bytes
    def __init__(self, offer: _Optional[bytes] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: bytes
    def __init__(self, answer: _Optional[bytes] = ...) -> None: ...

class Matrix(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Store(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Matches(_message.Message):
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

class Blinded(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Evaluated(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Proof(_message.Message):
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

class Arrange(_message.Message):
    __slots__ = ("fresh", "restore", "keep", "drop", "weigh", "primal", "climb", "save", "settle", "search", "shrink", "invert", "account", "newton", "assemble", "digest")
    FRESH_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    WEIGH_FIELD_NUMBER: _ClassVar[int]
    PRIMAL_FIELD_NUMBER: _ClassVar[int]
    CLIMB_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    SHRINK_FIELD_NUMBER: _ClassVar[int]
    INVERT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    NEWTON_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    fresh: Fresh
    restore: Restore
    keep: Keep
    drop: Drop
    weigh: Weigh
    primal: Primal
    climb: Climb
    save: Save
    settle: Settle
    search: Search
    shrink: Shrink
    invert: Invert
    account: Account
    newton: Newton
    assemble: Assemble
    digest: Digest
    def __init__(self, fresh: _Optional[_Union[Fresh, _Mapping]] = ..., restore: _Optional[_Union[Restore, _Mapping]] = ..., keep: _Optional[_Union[Keep, _Mapping]] = ..., drop: _Optional[_Union[Drop, _Mapping]] = ..., weigh: _Optional[_Union[Weigh, _Mapping]] = ..., primal: _Optional[_Union[Primal, _Mapping]] = ..., climb: _Optional[_Union[Climb, _Mapping]] = ..., save: _Optional[_Union[Save, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., search: _Optional[_Union[Search, _Mapping]] = ..., shrink: _Optional[_Union[Shrink, _Mapping]] = ..., invert: _Optional[_Union[Invert, _Mapping]] = ..., account: _Optional[_Union[Account, _Mapping]] = ..., newton: _Optional[_Union[Newton, _Mapping]] = ..., assemble: _Optional[_Union[Assemble, _Mapping]] = ..., digest: _Optional[_Union[Digest, _Mapping]] = ...) -> None: ...

class Fresh(_message.Message):
    __slots__ = ("stream", "fit", "shard")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    stream: str
    fit: Rows
    shard: int
    def __init__(self, stream: _Optional[str] = ..., fit: _Optional[_Union[Rows, str]] = ..., shard: _Optional[int] = ...) -> None: ...

class Restore(_message.Message):
    __slots__ = ("slot", "stream")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    slot: str
    stream: str
    def __init__(self, slot: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class Assemble(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slots: _Optional[_Iterable[str]] = ...) -> None: ...

class Digest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class Newton(_message.Message):
    __slots__ = ("regularise", "begin", "advance", "turn", "move", "blur")
    REGULARISE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ADVANCE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    BLUR_FIELD_NUMBER: _ClassVar[int]
    regularise: Regularise
    begin: Begin
    advance: Advance
    turn: Turn
    move: Move
    blur: Blur
    def __init__(self, regularise: _Optional[_Union[Regularise, _Mapping]] = ..., begin: _Optional[_Union[Begin, _Mapping]] = ..., advance: _Optional[_Union[Advance, _Mapping]] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ..., move: _Optional[_Union[Move, _Mapping]] = ..., blur: _Optional[_Union[Blur, _Mapping]] = ...) -> None: ...

class Regularise(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Begin(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Advance(_message.Message):
    __slots__ = ("length",)
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: float
    def __init__(self, length: _Optional[float] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("momentum",)
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    momentum: float
    def __init__(self, momentum: _Optional[float] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("length",)
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: float
    def __init__(self, length: _Optional[float] = ...) -> None: ...

class Blur(_message.Message):
    __slots__ = ("sigma",)
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    sigma: float
    def __init__(self, sigma: _Optional[float] = ...) -> None: ...

class Keep(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class Drop(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class Weigh(_message.Message):
    __slots__ = ("slot", "anchor")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    slot: str
    anchor: str
    def __init__(self, slot: _Optional[str] = ..., anchor: _Optional[str] = ...) -> None: ...

class Invert(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class Search(_message.Message):
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

class Climb(_message.Message):
    __slots__ = ("step_size",)
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    def __init__(self, step_size: _Optional[float] = ...) -> None: ...

class Save(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    def __init__(self, checkpoint: _Optional[int] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    def __init__(self, checkpoint: _Optional[int] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Done(_message.Message):
    __slots__ = ("report", "purged", "left", "spent")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    report: Report
    purged: _containers.RepeatedScalarFieldContainer[str]
    left: _containers.RepeatedScalarFieldContainer[str]
    spent: Spent
    def __init__(self, report: _Optional[_Union[Report, _Mapping]] = ..., purged: _Optional[_Iterable[str]] = ..., left: _Optional[_Iterable[str]] = ..., spent: _Optional[_Union[Spent, _Mapping]] = ...) -> None: ...

class Spent(_message.Message):
    __slots__ = ("releases", "square")
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    SQUARE_FIELD_NUMBER: _ClassVar[int]
    releases: int
    square: float
    def __init__(self, releases: _Optional[int] = ..., square: _Optional[float] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("held_square", "moved_square", "diverged", "slot_square", "norm_square", "cosine", "rank", "inner", "residual_square", "pulled_square", "digest")
    HELD_SQUARE_FIELD_NUMBER: _ClassVar[int]
    MOVED_SQUARE_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    SLOT_SQUARE_FIELD_NUMBER: _ClassVar[int]
    NORM_SQUARE_FIELD_NUMBER: _ClassVar[int]
    COSINE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INNER_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_SQUARE_FIELD_NUMBER: _ClassVar[int]
    PULLED_SQUARE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    held_square: float
    moved_square: float
    diverged: bool
    slot_square: float
    norm_square: float
    cosine: float
    rank: float
    inner: float
    residual_square: float
    pulled_square: float
    digest: bytes
    def __init__(self, held_square: _Optional[float] = ..., moved_square: _Optional[float] = ..., diverged: _Optional[bool] = ..., slot_square: _Optional[float] = ..., norm_square: _Optional[float] = ..., cosine: _Optional[float] = ..., rank: _Optional[float] = ..., inner: _Optional[float] = ..., residual_square: _Optional[float] = ..., pulled_square: _Optional[float] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Ask(_message.Message):
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

class Show(_message.Message):
    __slots__ = ("ask",)
    ASK_FIELD_NUMBER: _ClassVar[int]
    ask: Ask
    def __init__(self, ask: _Optional[_Union[Ask, _Mapping]] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("report",)
    REPORT_FIELD_NUMBER: _ClassVar[int]
    report: Report
    def __init__(self, report: _Optional[_Union[Report, _Mapping]] = ...) -> None: ...

class Gradient(_message.Message):
    __slots__ = ("descend", "hold", "primal", "accumulate", "add")
    DESCEND_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    PRIMAL_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATE_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    descend: Descend
    hold: Hold
    primal: Primal
    accumulate: Accumulate
    add: Add
    def __init__(self, descend: _Optional[_Union[Descend, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., primal: _Optional[_Union[Primal, _Mapping]] = ..., accumulate: _Optional[_Union[Accumulate, _Mapping]] = ..., add: _Optional[_Union[Add, _Mapping]] = ...) -> None: ...

class Add(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Accumulate(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Descend(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Hold(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Primal(_message.Message):
    __slots__ = ("step_size", "price", "literal")
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    price: float
    literal: LiteralDual
    def __init__(self, step_size: _Optional[float] = ..., price: _Optional[float] = ..., literal: _Optional[_Union[LiteralDual, _Mapping]] = ...) -> None: ...

class LiteralDual(_message.Message):
    __slots__ = ("step_size", "threshold", "cap")
    STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    step_size: float
    threshold: float
    cap: float
    def __init__(self, step_size: _Optional[float] = ..., threshold: _Optional[float] = ..., cap: _Optional[float] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("gradient", "ask")
    GRADIENT_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    gradient: Gradient
    ask: Ask
    def __init__(self, gradient: _Optional[_Union[Gradient, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Purge(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Stamp(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Look(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Load(_message.Message):
    __slots__ = ("slot", "start", "size")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    slot: str
    start: int
    size: int
    def __init__(self, slot: _Optional[str] = ..., start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Teach(_message.Message):
    __slots__ = ("rows", "aim", "stream", "epochs", "batch", "learning_rate", "momentum", "weight_decay", "proximal", "steps", "clip", "slots", "teachers", "distil", "gate", "noise", "text")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    AIM_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    PROXIMAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TEACHERS_FIELD_NUMBER: _ClassVar[int]
    DISTIL_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    aim: Aim
    stream: str
    epochs: int
    batch: int
    learning_rate: float
    momentum: float
    weight_decay: float
    proximal: float
    steps: int
    clip: float
    slots: _containers.RepeatedScalarFieldContainer[str]
    teachers: Teachers
    distil: Distil
    gate: Gate
    noise: Noise
    text: Text
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., aim: _Optional[_Union[Aim, str]] = ..., stream: _Optional[str] = ..., epochs: _Optional[int] = ..., batch: _Optional[int] = ..., learning_rate: _Optional[float] = ..., momentum: _Optional[float] = ..., weight_decay: _Optional[float] = ..., proximal: _Optional[float] = ..., steps: _Optional[int] = ..., clip: _Optional[float] = ..., slots: _Optional[_Iterable[str]] = ..., teachers: _Optional[_Union[Teachers, _Mapping]] = ..., distil: _Optional[_Union[Distil, _Mapping]] = ..., gate: _Optional[_Union[Gate, _Mapping]] = ..., noise: _Optional[_Union[Noise, _Mapping]] = ..., text: _Optional[_Union[Text, _Mapping]] = ...) -> None: ...

class Text(_message.Message):
    __slots__ = ("objective", "optimiser", "gamma", "alpha", "beta", "delta", "diverge", "layer", "steering", "price", "ceiling", "stops")
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    OPTIMISER_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    DIVERGE_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    STEERING_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    objective: TextObjective
    optimiser: str
    gamma: float
    alpha: float
    beta: float
    delta: float
    diverge: bool
    layer: int
    steering: float
    price: float
    ceiling: float
    stops: bool
    def __init__(self, objective: _Optional[_Union[TextObjective, str]] = ..., optimiser: _Optional[str] = ..., gamma: _Optional[float] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ..., delta: _Optional[float] = ..., diverge: _Optional[bool] = ..., layer: _Optional[int] = ..., steering: _Optional[float] = ..., price: _Optional[float] = ..., ceiling: _Optional[float] = ..., stops: _Optional[bool] = ...) -> None: ...

class Teachers(_message.Message):
    __slots__ = ("mode", "first", "second", "temperature")
    MODE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    mode: TeacherMode
    first: float
    second: float
    temperature: float
    def __init__(self, mode: _Optional[_Union[TeacherMode, str]] = ..., first: _Optional[float] = ..., second: _Optional[float] = ..., temperature: _Optional[float] = ...) -> None: ...

class Distil(_message.Message):
    __slots__ = ("inner", "divergence", "attention", "temperature", "behind", "sign")
    INNER_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    SIGN_FIELD_NUMBER: _ClassVar[int]
    inner: int
    divergence: float
    attention: float
    temperature: float
    behind: bool
    sign: FeatureSign
    def __init__(self, inner: _Optional[int] = ..., divergence: _Optional[float] = ..., attention: _Optional[float] = ..., temperature: _Optional[float] = ..., behind: _Optional[bool] = ..., sign: _Optional[_Union[FeatureSign, str]] = ...) -> None: ...

class Gate(_message.Message):
    __slots__ = ("inner", "temperature", "attention", "most", "classes")
    INNER_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    inner: int
    temperature: float
    attention: float
    most: float
    classes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, inner: _Optional[int] = ..., temperature: _Optional[float] = ..., attention: _Optional[float] = ..., most: _Optional[float] = ..., classes: _Optional[_Iterable[int]] = ...) -> None: ...

class Noise(_message.Message):
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

class Change(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Learned(_message.Message):
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

class Read(_message.Message):
    __slots__ = ("rows", "sent")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    sent: bool
    def __init__(self, rows: _Optional[_Union[Rows, str]] = ..., sent: _Optional[bool] = ...) -> None: ...

class Measured(_message.Message):
    __slots__ = ("rows", "right", "loss", "odds", "chance")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    ODDS_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    rows: int
    right: int
    loss: float
    odds: _containers.RepeatedScalarFieldContainer[int]
    chance: float
    def __init__(self, rows: _Optional[int] = ..., right: _Optional[int] = ..., loss: _Optional[float] = ..., odds: _Optional[_Iterable[int]] = ..., chance: _Optional[float] = ...) -> None: ...

class Attend(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: str
    def __init__(self, request: _Optional[str] = ...) -> None: ...

class Follow(_message.Message):
    __slots__ = ("line", "parent")
    LINE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    line: str
    parent: str
    def __init__(self, line: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...

class Gather(_message.Message):
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

class Pairs(_message.Message):
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

class Sealed(_message.Message):
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

class Deal(_message.Message):
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

class There(_message.Message):
    __slots__ = ("members", "digest")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    digest: bytes
    def __init__(self, members: _Optional[_Iterable[str]] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Opened(_message.Message):
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

class SealKey(_message.Message):
    __slots__ = ("sealing", "certificate", "signature")
    SEALING_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    sealing: bytes
    certificate: bytes
    signature: bytes
    def __init__(self, sealing: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Entrust(_message.Message):
    __slots__ = ("keys",)
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SealKey
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SealKey, _Mapping]] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.MessageMap[str, SealKey]
    def __init__(self, keys: _Optional[_Mapping[str, SealKey]] = ...) -> None: ...

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

class Total(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Assent(_message.Message):
    __slots__ = ("certificate", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Assents(_message.Message):
    __slots__ = ("assents",)
    class AssentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Assent
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Assent, _Mapping]] = ...) -> None: ...
    ASSENTS_FIELD_NUMBER: _ClassVar[int]
    assents: _containers.MessageMap[str, Assent]
    def __init__(self, assents: _Optional[_Mapping[str, Assent]] = ...) -> None: ...

class Unsealed(_message.Message):
    __slots__ = ("start", "size")
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    start: int
    size: int
    def __init__(self, start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
