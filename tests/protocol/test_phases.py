"""The phase table: whole, and strict on both sides."""

import pytest

from protocol import vfl_pb2 as say
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import FIELDS, Body
from protocol.phases import TRANSITIONS, Conversation, Phase, Side

MOVES = [
    (phase, side, kind, after)
    for phase, moves in TRANSITIONS.items()
    for (side, kind), after in moves.items()
]
WRONG = [
    (phase, side, kind)
    for phase, moves in TRANSITIONS.items()
    for side in Side
    for kind in FIELDS
    if (side, kind) not in moves
]


def conversation(side: Side, phase: Phase) -> Conversation:
    talk = Conversation(side)
    talk.phase = phase
    return talk


def test_every_phase_is_reachable() -> None:
    reached, fresh = {Phase.JOINING}, [Phase.JOINING]
    while fresh:
        after = set(TRANSITIONS[fresh.pop()].values()) - reached
        reached |= after
        fresh += after
    assert reached == set(Phase) == set(TRANSITIONS)


def test_every_message_has_its_place() -> None:
    spoken = {kind for moves in TRANSITIONS.values() for _, kind in moves}
    assert spoken == set(FIELDS)


def test_every_message_of_the_file_has_a_class() -> None:
    body = say.Header.DESCRIPTOR.oneofs_by_name["body"]
    assert [kind.DESCRIPTOR.name for kind in FIELDS] == [f.message_type.name for f in body.fields]


def test_every_phase_but_the_last_leads_on() -> None:
    assert [phase for phase, moves in TRANSITIONS.items() if not moves] == [Phase.CLOSED]


def test_both_may_give_up_in_every_phase_but_the_last() -> None:
    for phase in set(Phase) - {Phase.CLOSED}:
        for side in Side:
            assert TRANSITIONS[phase][side, say.Abort] is Phase.CLOSED


def test_nobody_speaks_out_of_turn() -> None:
    """One side at a time; in TRANSFERRING the spoke knows from the sizes when the hub is done."""
    both = {Phase.TRANSFERRING, Phase.STORED, Phase.MATCHED}
    both |= {Phase.EMBEDDING, Phase.EMBEDDING_EMBEDDED}
    for phase, moves in TRANSITIONS.items():
        sides = {side for side, kind in moves if kind is not say.Abort}
        assert len(sides) <= 1 or phase in both


@pytest.mark.parametrize("phase", [Phase.EMBEDDING, Phase.EMBEDDING_EMBEDDED])
def test_words_that_cross_on_the_way_lead_to_one_place(phase: Phase) -> None:
    """Where both may speak, the order in which the two sides see it does not matter."""
    moves = TRANSITIONS[phase]
    for ours in [kind for side, kind in moves if side is Side.HUB and kind is not say.Abort]:
        asked = TRANSITIONS[moves[Side.HUB, ours]].get((Side.SPOKE, say.Embedding))
        answered = TRANSITIONS[moves[Side.SPOKE, say.Embedding]].get((Side.HUB, ours))
        assert asked is answered is not None


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_right_turns_are_the_same_on_both_sides(phase: Phase) -> None:
    for at, side, kind, after in MOVES:
        if at is phase:
            saying, hearing = conversation(side, phase), conversation(side.other, phase)
            saying.sent(kind)
            hearing.received(kind)
            assert saying.phase is hearing.phase is after


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_wrong_turn_is_refused_with_the_legal_moves(phase: Phase) -> None:
    for at, side, kind in WRONG:
        if at is phase:
            refuse(phase, side, kind)


GREETING = [say.Hello, say.Welcome, say.Accept]
ALIGNMENT = [
    *(say.Open, say.Share, say.Shares, say.Offer, say.Answer),
    *(say.Matrix, say.Matrix, say.Store, say.Matches, say.Aligned),
]
READY = [*GREETING, *ALIGNMENT]
ASKED = [*ALIGNMENT[:2], say.Blinded, say.Blinded, say.Shares]
HARDENED = [*ASKED, say.Evaluated, say.Evaluated, say.Proof, *ALIGNMENT[7:]]


@pytest.mark.parametrize(
    "story",
    [
        [say.Welcome],
        [say.Hello, say.Hello],
        [say.Hello, say.Accept],
        [say.Hello, say.Welcome, say.Open],
        [*GREETING, say.Ask],
        [*GREETING, say.Shares],
        [*GREETING, *ALIGNMENT[:5], say.Matches],
        [*GREETING, *ALIGNMENT[:8], say.Aligned],
        [*GREETING, *ALIGNMENT[:9], say.Matrix],
        [*GREETING, *ALIGNMENT[:9], say.Store],
        [*GREETING, *ALIGNMENT[:9], say.Forget],
        [*GREETING, say.Open, say.Blinded],
        [*GREETING, *ALIGNMENT[:3], say.Blinded],
        [*GREETING, *ASKED[:4], say.Evaluated],
        [*GREETING, *ASKED, say.Blinded],
        [*GREETING, *ASKED, say.Offer],
        [*GREETING, *ASKED, say.Store],
        [*GREETING, *HARDENED[:8], say.Evaluated],
        [*GREETING, *HARDENED[:8], say.Proof],
        [*GREETING, *HARDENED, say.Blinded],
        [*READY, say.Aligned],
        [*READY, say.Embedding],
        [*READY, say.Gradient],
        [*READY, say.Step],
        [*READY, say.Ask, say.Ask, say.Ask],
        [*READY, say.Ask, say.Ask, say.Arrange],
        [*READY, say.Ask, say.Ask, say.Embedding, say.Goodbye],
        [*READY, say.Show, say.Ask],
        [*READY, say.Show, say.Embedding, say.Gradient],
        [*GREETING, say.Resume, say.Ask],
        [*GREETING, say.Resume, say.Resumed, say.Open],
        [*READY, say.Ask, say.Gradient],
        [*READY, say.Ask, say.Goodbye],
        [*READY, say.Ask, say.Embedding, say.Embedding],
        [*READY, say.Ask, say.Embedding, say.Gradient, say.Gradient],
        [*READY, say.Ask, say.Embedding, say.Gradient, say.Step],
        [*READY, say.Ask, say.Embedding, say.Step, say.Step],
        [*READY, say.Ask, say.Embedding, say.Step, say.Gradient],
        [*READY, say.Forget, say.Purge],
        [*READY, say.Purge, say.Goodbye],
        [*READY, say.Arrange, say.Ask],
        [*READY, say.Look, say.Look],
        [*READY, say.Look, say.Embedding, say.Embedding],
        [*GREETING, say.Look],
        [*READY, say.Arrange, say.Done, say.Done],
        [*READY, say.Goodbye, say.Ask],
        [*READY, say.Goodbye, say.Abort],
        [say.Abort, say.Hello],
        [*READY, say.Open],
    ],
    ids=lambda story: " ".join(kind.__name__ for kind in story[-3:]),
)
def test_story_with_a_wrong_end_is_refused(story: list[type[Body]]) -> None:
    """What the table must say, whatever it says."""
    by_spoke = {say.Hello, say.Accept, say.Share, say.Offer, say.Store, say.Aligned, say.Done}
    by_spoke |= {say.Embedding, say.Resumed, say.Evaluated, say.Proof}
    talk = Conversation(Side.SPOKE)
    *before, last = [(talk.sent if kind in by_spoke else talk.received, kind) for kind in story]
    for tell, kind in before:
        tell(kind)
    with pytest.raises((LocalProtocolError, RemoteProtocolError)):
        last[0](last[1])


def refuse(phase: Phase, side: Side, kind: type[Body]) -> None:
    moves = TRANSITIONS[phase]
    legal = sorted(k.__name__ for s, k in moves if s is side)
    told = f"({side.value}) said {kind.__name__} in phase '{phase.value}'; legal here: "
    saying, hearing = conversation(side, phase), conversation(side.other, phase)
    with pytest.raises(LocalProtocolError) as ours:
        saying.sent(kind)
    with pytest.raises(RemoteProtocolError) as theirs:
        hearing.received(kind)
    assert str(ours.value) == f"we {told}{', '.join(legal) or 'nothing'}"
    assert str(theirs.value) == f"the peer {told}{', '.join(legal) or 'nothing'}"
    assert saying.phase is hearing.phase is phase
