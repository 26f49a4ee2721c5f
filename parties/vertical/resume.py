"""Going on: from the newest checkpoint that all parties hold, and after one of them was lost."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from shutil import rmtree
from typing import TypeVar

from configs.schema import canonical
from parties.cli.options import Begin
from parties.common.errors import ABSENT
from parties.common.shared_randomness import Index
from parties.session.checkpoint import Checkpoints
from parties.session.checkpoint_offer import Held
from parties.session.party import Party, Seated
from parties.vertical.alignment.align import follow, lead
from parties.vertical.alignment.differencing import refuse_small_change
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.engine.party_state import Build, State
from parties.vertical.engine.split_model import Federation
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import Aborted, LineBroken, PeerSilent, RemoteProtocolError
from protocol.hub import Hub
from psi.alignment import alignment_digest
from psi.ids import fingerprints

T = TypeVar("T")
FRUITLESS = 3  # losses without a new checkpoint between them, after which a party gives up
_PLACE = vfl_pb2.Place(task=vfl_pb2.CHECKPOINT, epoch=0, step=0, microbatch=0)


def checkpoints(party: Party) -> Checkpoints:
    """Where ``party`` keeps what it can go on from."""
    plan = party.agreement
    bare = {name: each.model_copy(update={"pins": ()}) for name, each in plan.parties.items()}
    agreement = canonical(plan.model_copy(update={"parties": bare}))
    folder = party.state / "checkpoints"
    return Checkpoints(
        folder, party=party.name, agreement=agreement, data=party.holding.digest.hex()
    )


def prepare(party: Party, how: Begin) -> None:
    """Look at what an unfinished run left, before anybody is dialled.

    Raises:
        StorageError: there is nothing to go on from, or it is of another agreement.
        IntegrityError: what there is cannot be used.
    """
    ours = checkpoints(party)
    if how is Begin.FRESH:
        ours.clear()
        rmtree(party.state / PSI, ignore_errors=True)
    if how is Begin.RESUME:
        ours.require()


def newest(party: Party) -> int:
    """The number of our newest checkpoint; 0 without any."""
    return max(checkpoints(party).held().numbers, default=0)


def begin(party: Party, hub: Hub, offers: Mapping[str, Held]) -> Federation:
    """Go on from the newest checkpoint that all hold, or find the common rows.

    Raises:
        RemoteProtocolError: a party holds other common rows than we do.
    """
    ours = checkpoints(party)
    held = ours.held()
    number = _newest(held, offers)
    if number is None:
        _tell_what_is_lost(party, held, offers)
        ours.clear()
        rows = lead(party, hub).rows
        refuse_small_change(party, len(rows))
        federation = Federation(party, hub, rows, ours)
        federation.checkpoint()
        return federation
    hub.move_to(_PLACE)
    hub.broadcast(vfl_pb2.Resume(checkpoint=number))
    ours.settle(number, number)
    federation = Federation.resume(party, hub, ours, number, held.run)
    digest = _digest(party, federation.state.features.rows, next(iter(hub.channels.values())))
    for name, said in hub.gather(federation.patience).items():
        _same(name, digest, said.expect(vfl_pb2.Resumed).digest)
    party.watch.note(f"going on from checkpoint {number}")
    return federation


def join_in(party: Party, channel: Channel, ours: Checkpoints, build: Build) -> tuple[State, bytes]:
    """A passive party's side of ``begin``: its state, and the run that it is of."""
    said = channel.receive(party.agreement.limits.idle_seconds)
    if not isinstance(said.body, vfl_pb2.Resume):
        if ours.held().numbers:
            hub = channel.terms.peer
            party.watch.warn(f"{hub} begins anew: our checkpoints of an unfinished run are removed")
        ours.clear()
        rows = follow(party, channel, said.expect(vfl_pb2.Open)).rows
        refuse_small_change(party, len(rows))
        return State(party, rows, build, None), channel.session or b""
    number, held = said.body.checkpoint, ours.held()
    if number not in held.numbers:
        raise RemoteProtocolError(f"resumes checkpoint {number}, which was not offered")
    ours.settle(number, number)
    content = ours.read(number)
    state = State.read(party, content, build)
    party.ledger.carry(content.values["ledger"])
    channel.send(vfl_pb2.Resumed(digest=_digest(party, state.features.rows, channel)))
    party.watch.note(f"going on from checkpoint {number}")
    return state, held.run


def _newest(held: Held, offers: Mapping[str, Held]) -> int | None:
    common = set(held.numbers)
    for offer in offers.values():
        common &= set(offer.numbers) if offer.run == held.run else set()
    return max(common, default=None)


def _tell_what_is_lost(party: Party, held: Held, offers: Mapping[str, Held]) -> None:
    all_held = {party.name: held, **offers}
    without = [name for name, each in all_held.items() if each.run != held.run or not each.numbers]
    if any(each.numbers for each in all_held.values()):
        party.watch.warn(
            f"the run begins anew: {', '.join(without) or 'nobody'} cannot go on from the "
            "checkpoints that the others hold"
        )


def _digest(party: Party, rows: Index, channel: Channel) -> bytes:
    """The digest of the common rows that are left, under the present session."""
    live = rows >= 0
    ids = (party.holding.ids[row] for row in rows[live].tolist())
    divided = sha256(live.tobytes() + party.holding.in_test[rows[live]].tobytes()).digest()
    prints = fingerprints(ids, party.digest)
    return alignment_digest(prints, channel.session or b"", party.digest + divided)


def _same(name: str, ours: bytes, theirs: bytes) -> None:
    if not compare_digest(ours, theirs):
        raise RemoteProtocolError(
            f"{name} holds a checkpoint of other common rows",
            "begin anew with --begin fresh at both",
        )


class Losses:
    """How often a party lost another one, and how long it waits for it to come back."""

    def __init__(self, party: Seated, progress: Callable[[], int]) -> None:
        """``progress`` grows with what was done: losses with some between them do not add up."""
        self._party, self._progress = party, progress
        self._fruitless, self._newest = 0, -1
        self._lost: Exception | None = None

    def retry(self, join: Callable[[float], T]) -> T:
        """Join, the first time or again; a party that does not come back is the one to name."""
        limits = self._party.agreement.limits
        if self._lost is None:
            return join(limits.join_seconds)
        try:
            return join(limits.rejoin_seconds)
        except (LineBroken, PeerSilent) as error:
            raise self._lost from error

    def bear(self, error: Exception) -> None:
        """Go on waiting after ``error``, or raise it: not every error passes by waiting."""
        seconds = self._party.agreement.limits.rejoin_seconds
        if not passes(error) or not seconds:
            raise error
        done = self._progress()
        self._fruitless = 1 if done > self._newest else self._fruitless + 1
        self._newest = max(done, self._newest)
        if self._fruitless > FRUITLESS:
            raise error
        self._lost = error
        self._party.watch.warn(f"{error}; waiting up to {seconds:g} s for it to come back")


def passes(error: Exception) -> bool:
    """Whether ``error`` says that a party was lost, which may come back."""
    if isinstance(error, Aborted):
        return error.code == ABSENT
    return isinstance(error, LineBroken | PeerSilent)
