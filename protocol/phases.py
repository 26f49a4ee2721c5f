"""Whose turn is it: the phase table of every conversation, and the walk over it."""

from enum import Enum
from typing import TypeAlias

from protocol import vfl_pb2 as say
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import Body


class Side(Enum):
    """The hub leads, a spoke answers."""

    HUB = "hub"
    SPOKE = "spoke"

    @property
    def other(self) -> "Side":
        """The side across the line."""
        return Side.SPOKE if self is Side.HUB else Side.HUB


class Phase(Enum):
    """Where a conversation stands."""

    JOINING = "joining"
    GREETED = "greeted"
    WELCOMED = "welcomed"
    JOINED = "joined"
    RESUMING = "resuming"
    OPENED = "opened"
    SHARED = "shared"
    OFFERING = "offering"
    OFFERED = "offered"
    TRANSFERRING = "transferring"
    BLINDING = "blinding"
    EVALUATING = "evaluating"
    PROVED = "proved"
    STORED = "stored"
    MATCHED = "matched"
    READY = "ready"
    ARRANGING = "arranging"
    SHOWING = "showing"
    # Questions that wait for their embedding, and embeddings that wait for their gradient: at most
    # two together. Both sides may speak at once here, and their words may cross on the way, so the
    # table is a grid: whichever comes first, both sides end in the same cell.
    EMBEDDING = "embedding"
    EMBEDDED = "embedded"
    EMBEDDING_TWO = "embedding two"
    EMBEDDING_EMBEDDED = "embedding and embedded"
    EMBEDDED_TWO = "embedded two"
    # Horizontal learning: the server says vectors and what to do with them.
    LOADED = "loaded"
    TEACHING = "teaching"
    READING = "reading"
    ATTENDING = "attending"
    GATHERING = "gathering"
    PAIRING = "pairing"
    OPENING = "opening"
    ENTRUSTING = "entrusting"
    UNSEALING = "unsealing"
    CLOSED = "closed"


Move: TypeAlias = tuple[Side, type[Body]]

_LEAD: dict[Move, Phase] = {
    (Side.HUB, say.Show): Phase.SHOWING,
    (Side.HUB, say.Look): Phase.SHOWING,
    (Side.HUB, say.Arrange): Phase.ARRANGING,
    (Side.HUB, say.Forget): Phase.ARRANGING,
    (Side.HUB, say.Purge): Phase.ARRANGING,
    (Side.HUB, say.Stamp): Phase.ARRANGING,
    (Side.HUB, say.Goodbye): Phase.CLOSED,
}
_SERVE: dict[Move, Phase] = {
    (Side.HUB, say.Load): Phase.LOADED,
    (Side.HUB, say.Teach): Phase.TEACHING,
    (Side.HUB, say.Read): Phase.READING,
    (Side.HUB, say.Attend): Phase.ATTENDING,
    (Side.HUB, say.Follow): Phase.ATTENDING,
    (Side.HUB, say.Purge): Phase.ATTENDING,
    # A sum under masks: keys, shares, then lessons as ever, and what the sum needs.
    (Side.HUB, say.Gather): Phase.GATHERING,
    (Side.HUB, say.Pairs): Phase.PAIRING,
    (Side.HUB, say.Deal): Phase.LOADED,
    (Side.HUB, say.There): Phase.OPENING,
    # A sum of ciphertexts: its key, lessons, the assent of those in it, and what it opens to.
    (Side.HUB, say.Entrust): Phase.ENTRUSTING,
    (Side.HUB, say.SumKey): Phase.LOADED,
    (Side.HUB, say.Total): Phase.LOADED,
    (Side.HUB, say.Assents): Phase.UNSEALING,
    (Side.HUB, say.Goodbye): Phase.CLOSED,
}
_STREAM: dict[Move, Phase] = {
    (Side.HUB, say.Matrix): Phase.TRANSFERRING,
    (Side.SPOKE, say.Store): Phase.STORED,
}
_ABORT: dict[Move, Phase] = {
    (Side.HUB, say.Abort): Phase.CLOSED,
    (Side.SPOKE, say.Abort): Phase.CLOSED,
}
_TURNS: dict[Phase, dict[Move, Phase]] = {
    Phase.JOINING: {(Side.SPOKE, say.Hello): Phase.GREETED},
    Phase.GREETED: {(Side.HUB, say.Welcome): Phase.WELCOMED},
    Phase.WELCOMED: {(Side.SPOKE, say.Accept): Phase.JOINED},
    Phase.JOINED: {
        (Side.HUB, say.Open): Phase.OPENED,
        (Side.HUB, say.Resume): Phase.RESUMING,
        **_SERVE,
    },
    Phase.RESUMING: {(Side.SPOKE, say.Resumed): Phase.READY},
    Phase.OPENED: {(Side.SPOKE, say.Share): Phase.SHARED},
    # With Blinded begins the hardened intersection, whose asks end with Shares.
    Phase.SHARED: {
        (Side.HUB, say.Shares): Phase.OFFERING,
        (Side.HUB, say.Blinded): Phase.BLINDING,
    },
    Phase.OFFERING: {(Side.SPOKE, say.Offer): Phase.OFFERED},
    Phase.OFFERED: {(Side.HUB, say.Answer): Phase.TRANSFERRING},
    # The hub begins with the next bucket before it has the store of the last.
    Phase.TRANSFERRING: _STREAM,
    Phase.STORED: {**_STREAM, (Side.HUB, say.Matches): Phase.MATCHED},
    Phase.MATCHED: {
        (Side.HUB, say.Matches): Phase.MATCHED,
        (Side.SPOKE, say.Aligned): Phase.READY,
    },
    Phase.BLINDING: {
        (Side.HUB, say.Blinded): Phase.BLINDING,
        (Side.HUB, say.Shares): Phase.EVALUATING,
    },
    Phase.EVALUATING: {
        (Side.SPOKE, say.Evaluated): Phase.EVALUATING,
        (Side.SPOKE, say.Proof): Phase.PROVED,
    },
    # A large store is said in parts; the hub knows its size.
    Phase.PROVED: {(Side.SPOKE, say.Store): Phase.STORED},
    Phase.READY: {(Side.HUB, say.Ask): Phase.EMBEDDING, **_LEAD},
    Phase.ARRANGING: {(Side.SPOKE, say.Done): Phase.READY},
    Phase.SHOWING: {(Side.SPOKE, say.Embedding): Phase.READY},
    Phase.EMBEDDING: {
        (Side.SPOKE, say.Embedding): Phase.EMBEDDED,
        (Side.HUB, say.Ask): Phase.EMBEDDING_TWO,
    },
    # An embedding is answered by its gradient, alone or with the next question, or dropped.
    Phase.EMBEDDED: {
        (Side.HUB, say.Step): Phase.EMBEDDING,
        (Side.HUB, say.Gradient): Phase.READY,
        (Side.HUB, say.Ask): Phase.EMBEDDING_EMBEDDED,
        **_LEAD,
    },
    Phase.EMBEDDING_TWO: {(Side.SPOKE, say.Embedding): Phase.EMBEDDING_EMBEDDED},
    Phase.EMBEDDING_EMBEDDED: {
        (Side.SPOKE, say.Embedding): Phase.EMBEDDED_TWO,
        (Side.HUB, say.Gradient): Phase.EMBEDDING,
        (Side.HUB, say.Step): Phase.EMBEDDING_TWO,
    },
    Phase.EMBEDDED_TWO: {
        (Side.HUB, say.Gradient): Phase.EMBEDDED,
        (Side.HUB, say.Step): Phase.EMBEDDING_EMBEDDED,
        **_LEAD,
    },
    Phase.LOADED: _SERVE,
    Phase.TEACHING: {
        (Side.SPOKE, say.Change): Phase.TEACHING,
        (Side.SPOKE, say.Learned): Phase.LOADED,
    },
    Phase.READING: {(Side.SPOKE, say.Measured): Phase.LOADED},
    Phase.ATTENDING: {(Side.SPOKE, say.Done): Phase.LOADED},
    Phase.GATHERING: {
        (Side.SPOKE, say.MaskKeys): Phase.LOADED,
        (Side.SPOKE, say.SealKey): Phase.LOADED,
    },
    Phase.PAIRING: {(Side.SPOKE, say.Sealed): Phase.LOADED},
    Phase.OPENING: {
        (Side.SPOKE, say.Opened): Phase.LOADED,
        (Side.SPOKE, say.Assent): Phase.LOADED,
    },
    Phase.ENTRUSTING: {(Side.SPOKE, say.SumKey): Phase.LOADED},
    Phase.UNSEALING: {
        (Side.SPOKE, say.Unsealed): Phase.UNSEALING,
        (Side.SPOKE, say.Done): Phase.LOADED,
    },
}
TRANSITIONS: dict[Phase, dict[Move, Phase]] = {
    **{phase: moves | _ABORT for phase, moves in _TURNS.items()},
    Phase.CLOSED: {},
}


class Conversation:
    """One walk over the table; the same table serves both sides."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.phase = Phase.JOINING

    def sent(self, kind: type[Body]) -> None:
        """Note that we say ``kind``; raises ``LocalProtocolError`` when it is not our turn to."""
        self._step(self.side, kind, LocalProtocolError, "we")

    def received(self, kind: type[Body]) -> None:
        """Note that the peer said ``kind``; raises ``RemoteProtocolError`` when it must not."""
        self._step(self.side.other, kind, RemoteProtocolError, "the peer")

    def _step(self, side: Side, kind: type[Body], fault: type[Exception], who: str) -> None:
        moves = TRANSITIONS[self.phase]
        if (side, kind) not in moves:
            legal = (
                ", ".join(sorted(move.__name__ for at, move in moves if at is side)) or "nothing"
            )
            raise fault(
                f"{who} ({side.value}) said {kind.__name__} in phase '{self.phase.value}'; "
                f"legal here: {legal}"
            )
        self.phase = moves[side, kind]
