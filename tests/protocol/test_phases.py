"""Phase table: complete, and enforced on both sides."""

import pytest

from protocol import vfl_pb2 as pb
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import BODY_FIELDS, Body
from protocol.phases import TRANSITIONS, Phase, PhaseTracker, Side

MOVES = [
    (phase, side, kind, after)
    for phase, moves in TRANSITIONS.items()
    for (side, kind), after in moves.items()
]
WRONG = [
    (phase, side, kind)
    for phase, moves in TRANSITIONS.items()
    for side in Side
    for kind in BODY_FIELDS
    if (side, kind) not in moves
]


def conversation(side: Side, phase: Phase) -> PhaseTracker:
    tracker = PhaseTracker(side)
    tracker.phase = phase
    return tracker


def test_every_phase_is_reachable() -> None:
    reached, fresh = {Phase.JOINING}, [Phase.JOINING]
    while fresh:
        after = set(TRANSITIONS[fresh.pop()].values()) - reached
        reached |= after
        fresh += after
    assert reached == set(Phase) == set(TRANSITIONS)


def test_every_message_is_legal_in_some_phase() -> None:
    spoken = {kind for moves in TRANSITIONS.values() for _, kind in moves}
    assert spoken == set(BODY_FIELDS)


def test_every_message_of_the_file_has_a_class() -> None:
    body = pb.Header.DESCRIPTOR.oneofs_by_name["body"]
    assert [kind.DESCRIPTOR.name for kind in BODY_FIELDS] == [
        f.message_type.name for f in body.fields
    ]


def test_every_phase_but_the_last_has_a_successor() -> None:
    assert [phase for phase, moves in TRANSITIONS.items() if not moves] == [Phase.CLOSED]


def test_both_sides_may_abort_in_every_phase_but_the_last() -> None:
    for phase in set(Phase) - {Phase.CLOSED}:
        for side in Side:
            assert TRANSITIONS[phase][side, pb.Abort] is Phase.CLOSED


def test_one_side_sends_in_each_phase() -> None:
    """Except in five phases, only one side may send."""
    both = {Phase.TRANSFERRING, Phase.STORE_SENT, Phase.MATCHED}
    both |= {Phase.EMBEDDING, Phase.EMBEDDING_EMBEDDED}
    for phase, moves in TRANSITIONS.items():
        sides = {side for side, kind in moves if kind is not pb.Abort}
        assert len(sides) <= 1 or phase in both


@pytest.mark.parametrize("phase", [Phase.EMBEDDING, Phase.EMBEDDING_EMBEDDED])
def test_messages_that_cross_lead_to_one_phase(phase: Phase) -> None:
    """Both orders of arrival lead to the same phase."""
    moves = TRANSITIONS[phase]
    for ours in [kind for side, kind in moves if side is Side.HUB and kind is not pb.Abort]:
        after_request = TRANSITIONS[moves[Side.HUB, ours]].get((Side.SPOKE, pb.Embedding))
        after_reply = TRANSITIONS[moves[Side.SPOKE, pb.Embedding]].get((Side.HUB, ours))
        assert after_request is after_reply is not None


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_legal_messages_change_the_phase_of_both_sides_alike(phase: Phase) -> None:
    for at, side, kind, after in MOVES:
        if at is phase:
            sender, receiver = conversation(side, phase), conversation(side.other, phase)
            sender.sent(kind)
            receiver.received(kind)
            assert sender.phase is receiver.phase is after


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_illegal_message_is_refused_with_the_legal_ones(phase: Phase) -> None:
    for at, side, kind in WRONG:
        if at is phase:
            refuse(phase, side, kind)


GREETING = [pb.Hello, pb.Welcome, pb.Accept]
ALIGNMENT = [
    *(pb.StartAlignment, pb.KeyShare, pb.KeyShares, pb.OtOffer, pb.OtAnswer),
    *(pb.OprfMatrix, pb.OprfMatrix, pb.KeyValueStore, pb.MatchTags, pb.Aligned),
]
READY = [*GREETING, *ALIGNMENT]
ASKED = [*ALIGNMENT[:2], pb.BlindedElements, pb.BlindedElements, pb.KeyShares]
HARDENED = [
    *ASKED,
    pb.EvaluatedElements,
    pb.EvaluatedElements,
    pb.EvaluationProof,
    *ALIGNMENT[7:],
]


@pytest.mark.parametrize(
    "sequence",
    [
        [pb.Welcome],
        [pb.Hello, pb.Hello],
        [pb.Hello, pb.Accept],
        [pb.Hello, pb.Welcome, pb.StartAlignment],
        [*GREETING, pb.BatchRequest],
        [*GREETING, pb.KeyShares],
        [*GREETING, *ALIGNMENT[:5], pb.MatchTags],
        [*GREETING, *ALIGNMENT[:8], pb.Aligned],
        [*GREETING, *ALIGNMENT[:9], pb.OprfMatrix],
        [*GREETING, *ALIGNMENT[:9], pb.KeyValueStore],
        [*GREETING, *ALIGNMENT[:9], pb.ForgetRows],
        [*GREETING, pb.StartAlignment, pb.BlindedElements],
        [*GREETING, *ALIGNMENT[:3], pb.BlindedElements],
        [*GREETING, *ASKED[:4], pb.EvaluatedElements],
        [*GREETING, *ASKED, pb.BlindedElements],
        [*GREETING, *ASKED, pb.OtOffer],
        [*GREETING, *ASKED, pb.KeyValueStore],
        [*GREETING, *HARDENED[:8], pb.EvaluatedElements],
        [*GREETING, *HARDENED[:8], pb.EvaluationProof],
        [*GREETING, *HARDENED, pb.BlindedElements],
        [*READY, pb.Aligned],
        [*READY, pb.Embedding],
        [*READY, pb.Gradient],
        [*READY, pb.Step],
        [*READY, pb.BatchRequest, pb.BatchRequest, pb.BatchRequest],
        [*READY, pb.BatchRequest, pb.BatchRequest, pb.ModelCommand],
        [*READY, pb.BatchRequest, pb.BatchRequest, pb.Embedding, pb.Goodbye],
        [*READY, pb.Evaluate, pb.BatchRequest],
        [*READY, pb.Evaluate, pb.Embedding, pb.Gradient],
        [*GREETING, pb.Resume, pb.BatchRequest],
        [*GREETING, pb.Resume, pb.Resumed, pb.StartAlignment],
        [*READY, pb.BatchRequest, pb.Gradient],
        [*READY, pb.BatchRequest, pb.Goodbye],
        [*READY, pb.BatchRequest, pb.Embedding, pb.Embedding],
        [*READY, pb.BatchRequest, pb.Embedding, pb.Gradient, pb.Gradient],
        [*READY, pb.BatchRequest, pb.Embedding, pb.Gradient, pb.Step],
        [*READY, pb.BatchRequest, pb.Embedding, pb.Step, pb.Step],
        [*READY, pb.BatchRequest, pb.Embedding, pb.Step, pb.Gradient],
        [*READY, pb.ForgetRows, pb.Purge],
        [*READY, pb.Purge, pb.Goodbye],
        [*READY, pb.ModelCommand, pb.BatchRequest],
        [*READY, pb.Predict, pb.Predict],
        [*READY, pb.Predict, pb.Embedding, pb.Embedding],
        [*GREETING, pb.Predict],
        [*READY, pb.ModelCommand, pb.Done, pb.Done],
        [*READY, pb.Goodbye, pb.BatchRequest],
        [*READY, pb.Goodbye, pb.Abort],
        [pb.Abort, pb.Hello],
        [*READY, pb.Purge, pb.Done, pb.StartAlignment],
        [*GREETING, *ALIGNMENT, *HARDENED, pb.StartAlignment, pb.Aligned],
    ],
    ids=lambda sequence: " ".join(kind.__name__ for kind in sequence[-3:]),
)
def test_sequence_with_an_illegal_end_is_refused(sequence: list[type[Body]]) -> None:
    """Illegal sequences, written down independently of the table."""
    by_spoke = {
        pb.Hello,
        pb.Accept,
        pb.KeyShare,
        pb.OtOffer,
        pb.KeyValueStore,
        pb.Aligned,
        pb.Done,
    }
    by_spoke |= {pb.Embedding, pb.Resumed, pb.EvaluatedElements, pb.EvaluationProof}
    tracker = PhaseTracker(Side.SPOKE)
    *before, last = [
        (tracker.sent if kind in by_spoke else tracker.received, kind) for kind in sequence
    ]
    for move, kind in before:
        move(kind)
    with pytest.raises((LocalProtocolError, RemoteProtocolError)):
        last[0](last[1])


def refuse(phase: Phase, side: Side, kind: type[Body]) -> None:
    moves = TRANSITIONS[phase]
    legal = sorted(k.__name__ for s, k in moves if s is side)
    message = f"({side.value}) must not send {kind.__name__} in phase '{phase.value}'; legal here: "
    sender, receiver = conversation(side, phase), conversation(side.other, phase)
    with pytest.raises(LocalProtocolError) as ours:
        sender.sent(kind)
    with pytest.raises(RemoteProtocolError) as theirs:
        receiver.received(kind)
    assert str(ours.value) == f"this party {message}{', '.join(legal) or 'nothing'}"
    assert str(theirs.value) == f"the peer {message}{', '.join(legal) or 'nothing'}"
    assert sender.phase is receiver.phase is phase
