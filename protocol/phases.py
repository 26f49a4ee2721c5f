"""The phase table: which side may send which message in each phase of a conversation."""

from enum import Enum
from typing import TypeAlias

from protocol import vfl_pb2 as pb
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import Body


class Side(Enum):
    """A side of a conversation: the hub sends requests, and a spoke sends replies."""

    HUB = "hub"
    SPOKE = "spoke"

    @property
    def other(self) -> "Side":
        """The opposite side: ``SPOKE`` for ``HUB``, and ``HUB`` for ``SPOKE``."""
        return Side.SPOKE if self is Side.HUB else Side.HUB


class Phase(Enum):
    """Phase of a conversation; its name describes the last message or the next expected message."""

    JOINING = "joining"
    HELLO_SENT = "hello sent"
    WELCOME_SENT = "welcome sent"
    JOINED = "joined"
    RESUMING = "resuming"
    # Private set intersection.
    ALIGNING = "aligning"
    KEY_SENT = "key sent"
    KEYS_SHARED = "keys shared"
    OT_OFFERED = "oblivious transfer offered"
    TRANSFERRING = "transferring"
    BLINDING = "blinding"
    EVALUATING_ELEMENTS = "evaluating elements"
    PROVED = "proved"
    STORE_SENT = "store sent"
    MATCHED = "matched"
    ALIGNED = "aligned"
    # Split learning.
    READY = "ready"
    COMMANDED = "commanded"
    EVALUATING = "evaluating"
    SYNCHRONISING = "synchronising journals"
    SYNCHRONISING_BEFORE = "synchronising before the start"
    # Requests that wait for their embedding, and embeddings that wait for their gradient: at most
    # two together. Both sides may send at the same time here, and their messages may cross on the
    # way. So the table is a grid: in either order of arrival, both sides end in the same phase.
    EMBEDDING = "embedding"
    EMBEDDED = "embedded"
    EMBEDDING_TWO = "embedding two"
    EMBEDDING_EMBEDDED = "embedding and embedded"
    EMBEDDED_TWO = "embedded two"
    # Horizontal learning.
    LOADED = "loaded"
    TRAINING_LOCALLY = "training locally"
    EVALUATING_ROWS = "evaluating rows"
    SELECTING = "selecting"
    SYNCHRONISING_LOADED = "synchronising with a loaded model"
    # Secure aggregation.
    STARTING_SUM = "starting sum"
    SHARING_MASKS = "sharing masks"
    APPROVING = "approving"
    SHARING_KEY = "sharing key"
    DECRYPTING = "decrypting"
    CLOSED = "closed"


SentMessage: TypeAlias = tuple[Side, type[Body]]

_COMMANDS: dict[SentMessage, Phase] = {
    (Side.HUB, pb.Evaluate): Phase.EVALUATING,
    (Side.HUB, pb.Predict): Phase.EVALUATING,
    (Side.HUB, pb.SyncJournal): Phase.SYNCHRONISING,
    (Side.HUB, pb.ModelCommand): Phase.COMMANDED,
    (Side.HUB, pb.ForgetRows): Phase.COMMANDED,
    (Side.HUB, pb.Purge): Phase.COMMANDED,
    (Side.HUB, pb.PlantTrigger): Phase.COMMANDED,
    (Side.HUB, pb.Goodbye): Phase.CLOSED,
}
_HORIZONTAL: dict[SentMessage, Phase] = {
    (Side.HUB, pb.LoadVector): Phase.LOADED,
    (Side.HUB, pb.RunTask): Phase.TRAINING_LOCALLY,
    (Side.HUB, pb.EvaluateRows): Phase.EVALUATING_ROWS,
    (Side.HUB, pb.SelectRequest): Phase.SELECTING,
    (Side.HUB, pb.SwitchBranch): Phase.SELECTING,
    (Side.HUB, pb.KeepVersion): Phase.SELECTING,
    (Side.HUB, pb.Purge): Phase.SELECTING,
    # A sum with masks: public keys, shares, local tasks, and the shares that remove the masks.
    (Side.HUB, pb.StartSum): Phase.STARTING_SUM,
    (Side.HUB, pb.MemberKeys): Phase.SHARING_MASKS,
    (Side.HUB, pb.ShareSeed): Phase.LOADED,
    (Side.HUB, pb.Present): Phase.APPROVING,
    # A sum of ciphertexts: its key, local tasks, the members' approvals, and the decrypted sum.
    (Side.HUB, pb.ShareKey): Phase.SHARING_KEY,
    (Side.HUB, pb.SumKey): Phase.LOADED,
    (Side.HUB, pb.CiphertextSum): Phase.LOADED,
    (Side.HUB, pb.Approvals): Phase.DECRYPTING,
    (Side.HUB, pb.Goodbye): Phase.CLOSED,
}
_BUCKETS: dict[SentMessage, Phase] = {
    (Side.HUB, pb.OprfMatrix): Phase.TRANSFERRING,
    (Side.SPOKE, pb.KeyValueStore): Phase.STORE_SENT,
}
_ABORT: dict[SentMessage, Phase] = {
    (Side.HUB, pb.Abort): Phase.CLOSED,
    (Side.SPOKE, pb.Abort): Phase.CLOSED,
}
_TABLE: dict[Phase, dict[SentMessage, Phase]] = {
    Phase.JOINING: {(Side.SPOKE, pb.Hello): Phase.HELLO_SENT},
    Phase.HELLO_SENT: {(Side.HUB, pb.Welcome): Phase.WELCOME_SENT},
    Phase.WELCOME_SENT: {(Side.SPOKE, pb.Accept): Phase.JOINED},
    Phase.JOINED: {
        (Side.HUB, pb.StartAlignment): Phase.ALIGNING,
        (Side.HUB, pb.Resume): Phase.RESUMING,
        (Side.HUB, pb.SyncJournal): Phase.SYNCHRONISING_BEFORE,  # until all parties have joined
        **_HORIZONTAL,
    },
    Phase.SYNCHRONISING_BEFORE: {(Side.SPOKE, pb.JournalEvents): Phase.JOINED},
    Phase.RESUMING: {(Side.SPOKE, pb.Resumed): Phase.READY},
    Phase.ALIGNING: {(Side.SPOKE, pb.KeyShare): Phase.KEY_SENT},
    # BlindedElements starts the hardened mode; KeyShares ends the hub's list of blinded elements.
    Phase.KEY_SENT: {
        (Side.HUB, pb.KeyShares): Phase.KEYS_SHARED,
        (Side.HUB, pb.BlindedElements): Phase.BLINDING,
    },
    Phase.KEYS_SHARED: {(Side.SPOKE, pb.OtOffer): Phase.OT_OFFERED},
    Phase.OT_OFFERED: {(Side.HUB, pb.OtAnswer): Phase.TRANSFERRING},
    # The hub starts the next bucket before it has received the store of the last one.
    Phase.TRANSFERRING: _BUCKETS,
    Phase.STORE_SENT: {**_BUCKETS, (Side.HUB, pb.MatchTags): Phase.MATCHED},
    Phase.MATCHED: {
        (Side.HUB, pb.MatchTags): Phase.MATCHED,
        (Side.SPOKE, pb.Aligned): Phase.ALIGNED,
    },
    # The rows of a kept version are compared first, then the rows are intersected.
    Phase.ALIGNED: {
        (Side.HUB, pb.StartAlignment): Phase.ALIGNING,
        (Side.HUB, pb.SplitRows): Phase.READY,  # only in a split by time
        (Side.HUB, pb.BatchRequest): Phase.EMBEDDING,
        **_COMMANDS,
    },
    Phase.BLINDING: {
        (Side.HUB, pb.BlindedElements): Phase.BLINDING,
        (Side.HUB, pb.KeyShares): Phase.EVALUATING_ELEMENTS,
    },
    Phase.EVALUATING_ELEMENTS: {
        (Side.SPOKE, pb.EvaluatedElements): Phase.EVALUATING_ELEMENTS,
        (Side.SPOKE, pb.EvaluationProof): Phase.PROVED,
    },
    # A large store is sent in parts; the hub knows its size.
    Phase.PROVED: {(Side.SPOKE, pb.KeyValueStore): Phase.STORE_SENT},
    Phase.READY: {(Side.HUB, pb.BatchRequest): Phase.EMBEDDING, **_COMMANDS},
    Phase.COMMANDED: {(Side.SPOKE, pb.Done): Phase.READY},
    Phase.EVALUATING: {(Side.SPOKE, pb.Embedding): Phase.READY},
    Phase.SYNCHRONISING: {(Side.SPOKE, pb.JournalEvents): Phase.READY},
    Phase.EMBEDDING: {
        (Side.SPOKE, pb.Embedding): Phase.EMBEDDED,
        (Side.HUB, pb.BatchRequest): Phase.EMBEDDING_TWO,
    },
    # After an embedding the hub sends its gradient, alone or with the next request, or drops it.
    Phase.EMBEDDED: {
        (Side.HUB, pb.Step): Phase.EMBEDDING,
        (Side.HUB, pb.Gradient): Phase.READY,
        (Side.HUB, pb.BatchRequest): Phase.EMBEDDING_EMBEDDED,
        **_COMMANDS,
    },
    Phase.EMBEDDING_TWO: {(Side.SPOKE, pb.Embedding): Phase.EMBEDDING_EMBEDDED},
    Phase.EMBEDDING_EMBEDDED: {
        (Side.SPOKE, pb.Embedding): Phase.EMBEDDED_TWO,
        (Side.HUB, pb.Gradient): Phase.EMBEDDING,
        (Side.HUB, pb.Step): Phase.EMBEDDING_TWO,
    },
    Phase.EMBEDDED_TWO: {
        (Side.HUB, pb.Gradient): Phase.EMBEDDED,
        (Side.HUB, pb.Step): Phase.EMBEDDING_EMBEDDED,
        **_COMMANDS,
    },
    Phase.LOADED: {(Side.HUB, pb.SyncJournal): Phase.SYNCHRONISING_LOADED, **_HORIZONTAL},
    Phase.SYNCHRONISING_LOADED: {(Side.SPOKE, pb.JournalEvents): Phase.LOADED},
    Phase.TRAINING_LOCALLY: {
        (Side.SPOKE, pb.Update): Phase.TRAINING_LOCALLY,
        (Side.SPOKE, pb.LocalUpdate): Phase.LOADED,
    },
    Phase.EVALUATING_ROWS: {(Side.SPOKE, pb.Metrics): Phase.LOADED},
    Phase.SELECTING: {(Side.SPOKE, pb.Done): Phase.LOADED},
    Phase.STARTING_SUM: {
        (Side.SPOKE, pb.MaskKeys): Phase.LOADED,
        (Side.SPOKE, pb.SealingKey): Phase.LOADED,
    },
    Phase.SHARING_MASKS: {(Side.SPOKE, pb.SealedShares): Phase.LOADED},
    Phase.APPROVING: {
        (Side.SPOKE, pb.RevealedShares): Phase.LOADED,
        (Side.SPOKE, pb.Approve): Phase.LOADED,
    },
    Phase.SHARING_KEY: {(Side.SPOKE, pb.SumKey): Phase.LOADED},
    Phase.DECRYPTING: {
        (Side.SPOKE, pb.DecryptedSum): Phase.DECRYPTING,
        (Side.SPOKE, pb.Done): Phase.LOADED,
    },
}
TRANSITIONS: dict[Phase, dict[SentMessage, Phase]] = {
    **{phase: legal | _ABORT for phase, legal in _TABLE.items()},
    Phase.CLOSED: {},
}


class PhaseTracker:
    """Tracks the phase of one conversation; both sides use the same table of phases."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.phase = Phase.JOINING

    def sent(self, kind: type[Body]) -> None:
        """Record that this side sends a message of this ``kind``.

        Raises:
            LocalProtocolError: this side must not send this message in this phase.
        """
        self._step(self.side, kind, LocalProtocolError, "this party")

    def received(self, kind: type[Body]) -> None:
        """Record that the peer sent a message of this ``kind``.

        Raises:
            RemoteProtocolError: the peer must not send this message in this phase.
        """
        self._step(self.side.other, kind, RemoteProtocolError, "the peer")

    def _step(self, side: Side, kind: type[Body], fault: type[Exception], who: str) -> None:
        legal = TRANSITIONS[self.phase]
        if (side, kind) not in legal:
            names = ", ".join(sorted(each.__name__ for at, each in legal if at is side))
            raise fault(
                f"{who} ({side.value}) must not send {kind.__name__} in phase "
                f"'{self.phase.value}'; legal here: {names or 'nothing'}"
            )
        self.phase = legal[side, kind]
