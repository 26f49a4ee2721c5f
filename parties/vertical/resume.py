"""Start of a vertical run: resume the newest common checkpoint, or align the rows."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from shutil import rmtree

from configs.config_file import canonical_agreement
from parties.common.errors import StorageError
from parties.common.shared_randomness import Index
from parties.requests.journal import refuse_open_requests
from parties.session.checkpoint import Checkpoints, CheckpointStore
from parties.session.handshake import CheckpointOffer
from parties.session.setup import Begin
from parties.vertical.alignment.align import align_active, align_passive
from parties.vertical.alignment.differencing import refuse_small_change
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.alignment.row_order import order_secret
from parties.vertical.alignment.time_split import receive_parts, send_parts
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import NetworkBuilder, PartyState
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.forgotten_rows import forgotten_count, request_rules
from parties.vertical.kept_model import announce_new_version, party_models
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.message import Message
from psi.alignment import alignment_digest
from psi.ids import fingerprint_ids

CHECKPOINTS = "checkpoints"  # folder in the party's folder, during a training
_PLACE = vfl_pb2.Place(task=vfl_pb2.CHECKPOINT, epoch=0, step=0, microbatch=0)


def party_checkpoints(party: VerticalParty) -> Checkpoints:
    """The checkpoints of a party, which are valid for one agreement and one data set."""
    plan = party.agreement
    bare = {name: each.model_copy(update={"pins": ()}) for name, each in plan.parties.items()}
    agreement = canonical_agreement(plan.model_copy(update={"parties": bare}))
    folder, data = party.state / CHECKPOINTS, party.holding.digest.hex()
    if party.holding.ranks:
        data += " with ranks"
    data += _declared(party)
    if party.continues:
        data += f" from {party.base or 'new weights'}"
    return Checkpoints(folder, party=party.name, agreement=agreement, data=data)


def _declared(party: VerticalParty) -> str:
    """A digest of the preprocessing that the party declares; empty if it is fitted on rows."""
    used = b""
    if party.agreement.preprocessing == "declared":
        declared = party.settings.data.model_dump(include={"ranges", "vocabulary"})
        used = repr(declared).encode()
    elif party.settings.statistics is not None:
        with suppress(OSError):  # a file that cannot be read is refused where it is used
            used = party.settings.statistics.read_bytes()
    return f" with {sha256(used).hexdigest()}" if used else ""


def prepare_start(party: VerticalParty, begin: Begin) -> None:
    """Prepare a training; delete, keep or require the checkpoints of an unfinished run.

    Raises:
        StorageError: a checkpoint is required, but there is none for this agreement; or a model is
            kept, but the agreement keeps none.
        IntegrityError: the checkpoints, the key file or the journal of requests are damaged.
        PolicyError: requests to forget are open.
    """
    refuse_open_requests(party, request_rules(party.agreement))
    announce_new_version(party)
    checkpoints = party_checkpoints(party)
    if begin is Begin.FRESH:
        checkpoints.clear()
        rmtree(party.state / PSI, ignore_errors=True)
    if begin is Begin.RESUME:
        checkpoints.require()


def newest_checkpoint(party: VerticalParty) -> int:
    """The number of the party's newest checkpoint; 0 if there is no checkpoint."""
    return max(party_checkpoints(party).offer().numbers, default=0)


def start_split_model(
    party: VerticalParty, hub: Hub, offers: Mapping[str, CheckpointOffer]
) -> SplitModel:
    """Resume the newest checkpoint that all parties have, or align the rows.

    Raises:
        RemoteProtocolError: the checkpoints of two parties contain different common rows.
    """
    checkpoints = party_checkpoints(party)
    offer = checkpoints.offer()
    number = _newest_common(offer, offers)
    if number is not None:
        return resume_split_model(party, hub, checkpoints, offer.run, number)
    _warn_of_restart(party, offer, offers)
    checkpoints.clear()
    rows = align_active(party, hub).rows
    refuse_small_change(party, len(rows), forgotten_count(party))
    split_model = SplitModel(party, hub, rows, checkpoints, send_parts(party, hub, rows))
    split_model.checkpoint()
    return split_model


def start_kept_model(
    party: VerticalParty, hub: Hub, offers: Mapping[str, CheckpointOffer]
) -> SplitModel:
    """Resume the newest file that the stores of all parties have: a version, or a checkpoint.

    Raises:
        StorageError: the stores have no file in common.
        RemoteProtocolError: the files of two parties contain different common rows.
    """
    store = party_models(party)
    offer = store.offer()
    number = _newest_common(offer, offers)
    if number is None:
        kept = {party.name: offer, **offers}
        listed = "; ".join(
            f"{name} keeps {', '.join(map(str, each.numbers)) or 'none'}"
            + (f" of run {each.run.hex()[:8]}" if each.numbers else "")
            for name, each in kept.items()
        )
        raise StorageError(
            f"the parties keep no common version of the model: {listed}",
            "restore the folders of all parties from backups of the same day, or train again",
        )
    return resume_split_model(party, hub, store, offer.run, number)


def resume_split_model(
    party: VerticalParty, hub: Hub, checkpoints: CheckpointStore, run: bytes, number: int
) -> SplitModel:
    """Let every party resume the file ``number`` of the training run ``run``.

    Raises:
        RemoteProtocolError: the files of two parties contain different common rows.
    """
    hub.move_to(_PLACE)
    hub.broadcast(vfl_pb2.Resume(checkpoint=number))
    checkpoints.prune(number, number)
    split_model = SplitModel.resume(party, hub, checkpoints, number, run)
    digest = _digest(party, split_model.state.features.rows, next(iter(hub.channels.values())))
    for name, message in hub.gather(split_model.time_limit).items():
        _require_same(name, digest, message.expect(vfl_pb2.Resumed).digest)
    party.progress.note(f"resumed checkpoint {number}")
    return split_model


def start_party_state(
    party: VerticalParty, channel: Channel, checkpoints: Checkpoints, build: NetworkBuilder
) -> tuple[PartyState, bytes]:
    """Start a passive party: resume the checkpoint that the hub names, or align the rows.

    Returns:
        The state of the party, and 16 bytes that identify the run.

    Raises:
        RemoteProtocolError: the hub names a checkpoint that this party did not offer.
    """
    message = channel.receive(party.limits.idle_seconds)
    if not isinstance(message.body, vfl_pb2.Resume):
        if checkpoints.offer().numbers:
            hub = channel.terms.peer
            party.progress.warn(
                f"{hub} starts a new run: the checkpoints of the unfinished run are deleted"
            )
        checkpoints.clear()
        rows = align_passive(party, channel, message.expect(vfl_pb2.StartAlignment)).rows
        refuse_small_change(party, len(rows), forgotten_count(party))
        parts = receive_parts(party, channel, len(rows))
        return PartyState(party, rows, build, None, parts), channel.session or b""
    return _resume_party_state(party, channel, checkpoints, message.body.checkpoint, build)


def start_kept_state(
    party: VerticalParty,
    channel: Channel,
    store: CheckpointStore,
    build: NetworkBuilder,
    synchronise: Callable[[dict[str, int], Message], None] | None = None,
) -> tuple[PartyState, bytes]:
    """Start a passive party from the file of its ``store`` that the hub names.

    Args:
        party: the party.
        channel: the channel to the hub.
        store: the party's kept models.
        build: builds the party's network.
        synchronise: answers the exchanges of journals with which the hub waits for other parties;
            called with the hub's numbers of events and its message. None: there are none.

    Returns:
        The state of the party, and 16 bytes that identify the run.

    Raises:
        RemoteProtocolError: the hub does not name a file that this party offered.
    """
    message = channel.receive(party.limits.idle_seconds)
    while synchronise is not None and isinstance(message.body, vfl_pb2.SyncJournal):
        synchronise(dict(message.body.counts), message)
        message = channel.receive(party.limits.idle_seconds)
    named = message.expect(vfl_pb2.Resume).checkpoint
    return _resume_party_state(party, channel, store, named, build)


def _resume_party_state(
    party: VerticalParty,
    channel: Channel,
    checkpoints: CheckpointStore,
    number: int,
    build: NetworkBuilder,
) -> tuple[PartyState, bytes]:
    """Load a checkpoint that this party offered, and prove its rows to the hub."""
    offer = checkpoints.offer()
    if number not in offer.numbers:
        raise RemoteProtocolError(
            f"the hub asks {party.name} to resume checkpoint {number}, but {party.name} did not "
            "offer this checkpoint"
        )
    checkpoints.prune(number, number)
    content = checkpoints.read(number)
    state = PartyState.from_content(party, content, build)
    party.traffic.restore(content.values["traffic"])
    channel.send(vfl_pb2.Resumed(digest=_digest(party, state.features.rows, channel)))
    party.progress.note(f"resumed checkpoint {number}")
    return state, offer.run


def _newest_common(own: CheckpointOffer, offers: Mapping[str, CheckpointOffer]) -> int | None:
    common = set(own.numbers)
    for offer in offers.values():
        common &= set(offer.numbers) if offer.run == own.run else set()
    return max(common, default=None)


def _warn_of_restart(
    party: VerticalParty, own: CheckpointOffer, offers: Mapping[str, CheckpointOffer]
) -> None:
    every = {party.name: own, **offers}
    without = [name for name, each in every.items() if each.run != own.run or not each.numbers]
    if any(each.numbers for each in every.values()):
        party.progress.warn(
            "the run starts from the beginning: no checkpoint is common to all parties"
            + (f"; {', '.join(without)} cannot resume one" if without else "")
        )


def _digest(party: VerticalParty, rows: Index, channel: Channel) -> bytes:
    """A digest of the remaining common rows, bound to the session."""
    live = rows >= 0
    ids = (party.holding.ids[row] for row in rows[live].tolist())
    test_split = sha256(live.tobytes() + party.holding.in_test[rows[live]].tobytes()).digest()
    prints = fingerprint_ids(ids, order_secret(party.agreement))
    return alignment_digest(prints, channel.session or b"", party.digest + test_split)


def _require_same(name: str, checkpoints: bytes, peer_digest: bytes) -> None:
    if not compare_digest(checkpoints, peer_digest):
        raise RemoteProtocolError(
            f"the checkpoints of {name} and of this party contain different common rows",
            "start all parties with --begin fresh",
        )
