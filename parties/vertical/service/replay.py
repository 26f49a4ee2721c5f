"""Replay of a request: the parties carry it out again, and compare their models with the receipt.

A replay starts from the version before the request, which is kept for ``requests.replay_days``. A
method that trains a new model on the remaining rows alone can also start from the version that it
made. Nothing is stored, and no file is erased. A replay can also compare the model with Retrains.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from configs.config_file import agreement_digest
from parties.common.errors import IntegrityError, PolicyError, StorageError
from parties.common.shared_randomness import Index
from parties.requests.driver import carry_out
from parties.requests.duties import RequestDesk
from parties.requests.lifecycle import CARRIED_OUT
from parties.requests.receipts import FOLDER, read_receipt
from parties.requests.signing import commitment
from parties.session import handshake
from parties.session.checkpoint import CheckpointContent
from parties.session.handshake import CheckpointOffer
from parties.session.reconnect import report_and_close
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.kept_model import party_models, state_digest
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import vertical_method
from parties.vertical.passive import PassiveSession, RequestHooks
from parties.vertical.purge import purge_request
from parties.vertical.resume import resume_split_model, start_kept_state
from parties.vertical.service.comparison import compare_batch, write_comparison
from parties.vertical.service.desk import CorrectionRecord, corrected_labels, correction_records
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.line import Line
from protocol.message import Message
from unlearning.receipts.receipt import PartyStatement, Receipt


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The requests of a batch that forget rows, or those that replace labels.

    Attributes:
        requests: their IDs, in the order in which they were carried out.
        rows: common indices of their rows, [rows], ascending.
    """

    requests: tuple[str, ...]
    rows: Index


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What one party needs for a replay.

    Attributes:
        party: the party.
        receipt: the receipt of the batch of requests.
        batch: the IDs of the requests, in the order in which they were carried out.
        forgets: the requests that forget rows; they were carried out first.
        corrects: the requests that replace labels.
        records: the labels of these requests, at the active party.
        offer: the versions from which this party can start.
    """

    party: VerticalParty
    receipt: Receipt
    batch: tuple[str, ...]
    forgets: BatchPart
    corrects: BatchPart
    records: tuple[CorrectionRecord, ...]
    offer: CheckpointOffer

    def commitment(self, state: PartyState) -> str:
        """Commit to a model of this party, as the receipt does, 64 hexadecimal digits."""
        digest, stated = state_digest(state), statement_of(self.receipt, self.party.name)
        made = [commitment(self.party, each, digest) for each in self.batch]
        return stated.model_after if stated.model_after in made else made[0]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The outcome of a replay.

    Attributes:
        equal: by party, whether its model equals the one that the receipt states.
        page: the page of the comparison with Retrains; None without a comparison.
    """

    equal: Mapping[str, bool]
    page: Path | None = None


class ReplayStore:
    """The versions from which a replay may start; what a replay writes is not stored."""

    sealed: bool = True

    def __init__(self, store: ModelStore, offer: CheckpointOffer) -> None:
        self._store, self._run, self._numbers = store, offer.run, list(offer.numbers)

    def offer(self) -> CheckpointOffer:
        """Return the versions, and the checkpoints that would have been stored."""
        return CheckpointOffer(self._run, tuple(self._numbers))

    def read(self, number: int) -> CheckpointContent:
        """Return the content of a version.

        Raises:
            IntegrityError: the file is damaged, or its key is gone.
        """
        return self._store.read(number)

    def write(
        self, number: int, _run: bytes, _content: CheckpointContent, _: VersionFacts | None = None
    ) -> None:
        """Note the number of a checkpoint."""
        self._numbers.append(number)

    def prune(self, oldest: int, newest: float = float("inf")) -> None:
        """Leave out all numbers below ``oldest`` and above ``newest``; no file is erased."""
        self._numbers = [each for each in self._numbers if oldest <= each <= newest]

    def clear(self) -> None:
        """Keep everything."""


def statement_of(receipt: Receipt, name: str) -> PartyStatement:
    """Return what the party ``name`` states about itself in a receipt."""
    return next(each for each in receipt.statements if each.party == name)


def plan_replay(
    party: VerticalParty, desk: RequestDesk, given: Receipt | None = None
) -> ReplayPlan:
    """Check that this party can replay the request ``party.replays``.

    Args:
        party: the party.
        desk: the party's journal of requests.
        given: the receipt as an auditor has it; it must equal the party's own.

    Raises:
        PolicyError: the version from before the request is gone, the agreement has changed, or the
            agreement adds noise.
        StorageError: the party has no such request, or no receipt of it.
        IntegrityError: the party has another receipt of the request than ``given``.
    """
    view = next((each for each in desk.requests() if each.id == party.replays), None)
    if view is None or view.state not in CARRIED_OUT:
        state = "is unknown" if view is None else f"is {view.state.value}"
        raise StorageError(
            f"the request {party.replays} {state} at {party.name}: there is no receipt to replay",
            "vfl unlearn list shows the requests and their states",
        )
    if view.content.by_training:
        left = view.content.party or f"columns of {view.origin}"
        raise PolicyError(
            f"the request {party.replays} says that {left} left: it was carried out by a training, "
            "which cannot be replayed",
            "train again with the same agreement and data, and compare the models",
        )
    receipt = _own_receipt(party, min(view.batch))
    if given is not None and given.digest != receipt.digest:
        raise IntegrityError(
            f"{party.name} has another receipt of the request {party.replays} than the given one",
            "check both with vfl-verify",
        )
    _refuse_other_conditions(party, receipt)
    forgets, corrects = (_part(desk, view.batch, corrects=each) for each in (False, True))
    active = party.name == party.agreement.active
    records = correction_records(party, desk, corrects.requests) if active else []
    offer = _offer(party, receipt)
    return ReplayPlan(party, receipt, view.batch, forgets, corrects, tuple(records), offer)


def _part(desk: RequestDesk, batch: Sequence[str], *, corrects: bool) -> BatchPart:
    """The requests of a batch that forget rows; with ``corrects`` those that replace labels."""
    views = [each for each in map(desk.request, batch) if each.corrects is corrects]
    rows = sorted({row for view in views for row in view.rows or ()})
    return BatchPart(tuple(each.id for each in views), np.array(rows, np.int64))


def replay_active(
    plan: ReplayPlan, port: handshake.SpokePort, *, compares: bool = False
) -> ReplayResult:
    """Carry out the request again with all passive parties; store nothing.

    Args:
        plan: what this party needs.
        port: accepts the connections of the passive parties.
        compares: whether to compare the model with Retrains.

    Raises:
        PolicyError: the parties have no version in common from which a replay can start, the
            right labels were deleted, or the request cannot be compared.
        StorageError: the right labels are lost, and the data has the wrong ones.
        ProtocolError: a passive party broke the protocol, or was lost.
    """
    hub, offers = handshake.accept_spokes(plan.party, port)
    with report_and_close(hub):
        number = _common_version(plan, offers)
        if compares:
            _refuse_comparison(plan, number)
        store = ReplayStore(party_models(plan.party), plan.offer)
        model = resume_split_model(plan.party, hub, store, plan.offer.run, number)
        page = _repeat(plan, model, number, compares=compares)
        equal = _compare_commitments(plan, model)
        _goodbye(hub)
    return ReplayResult(equal, page)


def replay_passive(plan: ReplayPlan, connect: Callable[[], Line]) -> ReplayResult:
    """Join the active party, and carry out its orders again; store nothing.

    Raises:
        RemoteProtocolError: the active party ended the replay before its end, or broke the protocol
            in another way.
    """
    channel = handshake.join_hub(plan.party, connect, plan.offer)
    with report_and_close(channel), channel.locate_errors():
        session = ReplaySession(plan, channel)
        while session.handle(channel.receive(plan.party.limits.idle_seconds)):
            pass
    if session.equal is None:
        raise RemoteProtocolError("the active party ended the replay before its end")
    return ReplayResult({plan.party.name: session.equal})


class ReplaySession:
    """The session of a passive party that replays a request.

    Attributes:
        equal: whether the model equals the one that the receipt states; None before the end.
    """

    def __init__(self, plan: ReplayPlan, channel: Channel) -> None:
        self._plan, self._channel = plan, channel
        self.equal: bool | None = None
        store = ReplayStore(party_models(plan.party), plan.offer)
        hooks = RequestHooks(self._started, self._purging, _refuse_erasure, int)
        start = partial(start_kept_state, plan.party, channel, store)
        self._session = PassiveSession(plan.party, channel, store, start, hooks)

    def handle(self, message: Message) -> bool:
        """Check and handle one message; return False if it was ``Goodbye``, and else True.

        Raises:
            RemoteProtocolError: a replay does not allow the order.
        """
        match message.body:
            case vfl_pb2.Goodbye():
                return False
            case vfl_pb2.ModelCommand() as command if command.HasField("report_commitment"):
                self._report()
            case vfl_pb2.ModelCommand() as command if command.write_checkpoint.HasField("version"):
                raise RemoteProtocolError("the active party orders a new version in a replay")
            case _:
                return self._session.handle(message)
        return True

    def _report(self) -> None:
        made = self._plan.commitment(self._session.state)
        self.equal = made == statement_of(self._plan.receipt, self._plan.party.name).model_after
        report = vfl_pb2.BlockReport(commitment=bytes.fromhex(made))
        self._channel.send(vfl_pb2.Done(report=report))

    def _started(self, requests: Sequence[str], *, corrects: bool) -> Index | None:
        """The rows of one part of the batch; None if other requests are named.

        ``corrects``: whether the requests replace labels.
        """
        part = self._plan.corrects if corrects else self._plan.forgets
        return part.rows if tuple(requests) == part.requests else None

    def _purging(self, _state: PartyState) -> None:
        """Allow the purge, in memory alone, between the two parts of a batch."""
        if not (self._plan.forgets.requests and self._plan.corrects.requests):
            _refuse_erasure()


def _refuse_erasure(*_: object) -> None:
    raise RemoteProtocolError("the active party orders to erase rows in a replay")


def _own_receipt(party: VerticalParty, name: str) -> Receipt:
    path = party.state / FOLDER / f"{name}.json"
    try:
        return read_receipt(path)
    except OSError as error:
        raise StorageError(
            f"cannot read the receipt {path}: {error.strerror}",
            "start vfl serve: it writes the receipts of the journal again",
        ) from error


def _refuse_other_conditions(party: VerticalParty, receipt: Receipt) -> None:
    agreement, privacy = party.agreement, party.agreement.privacy
    noise = [privacy.embed_once, privacy.embed_train, privacy.grad_noise, privacy.label_dp]
    if any([*noise, agreement.newton.release]):
        raise PolicyError(
            "the agreement adds noise, which is drawn anew in a replay",
            "a replay needs an agreement without the tables [privacy] and [newton.release]",
        )
    if agreement_digest(agreement).hex() != receipt.plan_hash:
        raise PolicyError(
            f"the agreement is not the one with which {', '.join(_requests(receipt))} was carried "
            "out",
            "replay with the agreement of that day; certificates may be newer",
        )


def _requests(receipt: Receipt) -> list[str]:
    return [each.request_id for each in receipt.requests]


def _offer(party: VerticalParty, receipt: Receipt) -> CheckpointOffer:
    """The versions from which a party can start a replay."""
    runs = {
        each.number: each.run
        for each in party_models(party).files()
        if each.readable and each.version
    }
    wanted = [receipt.version_before]
    if vertical_method(receipt.method).fresh:
        wanted.append(receipt.version_after)
    found = [each for each in wanted if each in runs]
    if not found:
        raise PolicyError(
            f"{party.name} keeps no version from which the request {receipt.receipt_id} can be "
            f"replayed: {' or '.join(map(str, wanted))}",
            "agree on requests.replay_days before a request, to keep the version before it",
        )
    return CheckpointOffer(runs[found[0]], tuple(found))


def _common_version(plan: ReplayPlan, offers: Mapping[str, CheckpointOffer]) -> int:
    """The version from which all parties can start; from before the request if possible."""
    common = set(plan.offer.numbers)
    for offer in offers.values():
        common &= set(offer.numbers) if offer.run == plan.offer.run else set()
    if not common:
        raise PolicyError(
            f"the parties keep no common version from which {plan.receipt.receipt_id} can be "
            "replayed",
            "vfl models list shows the versions of each party",
        )
    return min(common)


def _refuse_comparison(plan: ReplayPlan, number: int) -> None:
    """Refuse a comparison from another version, or of a batch with both kinds of requests."""
    if number != plan.receipt.version_before:
        raise PolicyError(
            f"a comparison needs version {plan.receipt.version_before}, from before the request, "
            "at every party",
            "agree on requests.replay_days, or on requests.audit = 'full', before a request",
        )
    if plan.forgets.requests and plan.corrects.requests:
        raise PolicyError(
            f"the request {plan.receipt.receipt_id} was carried out together with others, of which "
            "some forget rows and some replace labels: a comparison is of one kind",
            "vfl replay repeats such a batch",
        )


def _repeat(plan: ReplayPlan, model: SplitModel, number: int, *, compares: bool) -> Path | None:
    """Carry out the method again, and write a comparison if one is wanted."""
    receipt = plan.receipt
    plan.party.progress.note(f"replaying {len(plan.batch)} requests from version {number}")
    if number == receipt.version_before:
        forgotten = _forget_again(plan, model, compares=compares)
        corrected = _correct_again(plan, model, compares=compares)
        return forgotten or corrected
    if any(each.model_before != each.model_after for each in receipt.statements):
        carry_out(vertical_method(receipt.method), NetworkRun(model))
    return None


def _forget_again(plan: ReplayPlan, model: SplitModel, *, compares: bool) -> Path | None:
    """Forget the rows of the batch, if it has requests to forget rows."""
    rows = plan.forgets.rows[model.state.features.rows[plan.forgets.rows] >= 0]
    if not len(rows):
        return None
    model.forget(rows, plan.forgets.requests)
    page = _change_again(plan, model, compares=compares)
    if plan.corrects.requests:
        purge_request(model, "batch")
    return page


def _correct_again(plan: ReplayPlan, model: SplitModel, *, compares: bool) -> Path | None:
    """Replace the labels of the batch, if it has requests that replace labels.

    Raises:
        PolicyError: the labels were deleted, because their rows were forgotten.
        StorageError: the labels are lost, and the data has the wrong ones.
    """
    if not plan.corrects.requests:
        return None
    wanted, name = corrected_labels(model, plan.records), plan.party.name
    learned = model.labels[wanted.rows].numpy()
    present = plan.corrects.rows[model.state.features.rows[plan.corrects.rows] >= 0]
    if gone := len(np.setdiff1d(present, wanted.rows)):
        raise PolicyError(
            f"{name} has deleted the labels of {gone} rows that {plan.receipt.receipt_id} "
            "corrected, because a later request forgot these rows",
            "vfl-verify still checks the receipt itself",
        )
    wanted.require_right(learned, plan.corrects.requests, name)
    if len(wanted.read):
        plan.party.progress.warn(
            f"the record of {plan.receipt.receipt_id} was purged: {len(wanted.read)} labels are "
            f"those of the data of {name}"
        )
    model.correct(wanted.rows, learned, wanted.labels, plan.corrects.requests)
    return _change_again(plan, model, compares=compares)


def _change_again(plan: ReplayPlan, model: SplitModel, *, compares: bool) -> Path | None:
    """Run the method on D_u; no method runs if the model never learned these rows."""
    receipt = plan.receipt
    if not len(model.rows.forgotten):
        return None
    if compares:
        _, request = compare_batch(model, receipt.receipt_id)
        return write_comparison(model, receipt.receipt_id, request)
    model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
    carry_out(vertical_method(receipt.method), NetworkRun(model))
    return None


def _compare_commitments(plan: ReplayPlan, model: SplitModel) -> dict[str, bool]:
    """Whether each party's model equals the one that the receipt states."""
    name = plan.party.name
    ask = vfl_pb2.ModelCommand(report_commitment=vfl_pb2.ReportCommitment())
    replies = model.send_to_passive(vfl_pb2.UNLEARN, ask)
    made = {each: reply.report.commitment.hex() for each, reply in replies.items()}
    made[name] = plan.commitment(model.state)
    return {
        each: made[each] == statement_of(plan.receipt, each).model_after
        for each in plan.party.agreement.parties
    }


def _goodbye(hub: Hub) -> None:
    hub.move_to(vfl_pb2.Place(task=vfl_pb2.CLOSE, epoch=0, step=0, microbatch=0))
    hub.broadcast(vfl_pb2.Goodbye())
