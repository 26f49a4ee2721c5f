"""Wrong orders of an active party: a real passive party refuses each one and changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, cast

import numpy as np
import pytest
from hostile_hub import Spoke, admit_from, digest_of, place, send_anything, start_spoke
from three_parties import (
    PAPER,
    agreement,
    forget_some,
    open_split_model,
    party,
    start_training,
)

from parties.common.errors import abort_reason, exit_code
from parties.session import handshake
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.run import hold_forget_gradient
from parties.vertical.passive import PassiveSession
from parties.vertical.resume import party_checkpoints, start_party_state
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.dataclass_codec import encode
from protocol.errors import Aborted, LineBroken, RemoteProtocolError
from protocol.message import Body, Message
from protocol.tensors import Tensor

BACKDOOR = {"party": "left", "target": "a", "columns": ["x", "y"]}
COMPARED = ("fine-tune", "relabel", "shrink-perturb", "ico-like", "retrain-local")
PLAN: dict[str, Any] = {
    "unlearn": [{"name": "some", "backdoor": BACKDOOR}],
    "unlearning": {"fedora": PAPER, "compare": COMPARED, "retrain_local": {"fit_epochs": 2}},
}
RULE = UpdateRule("adam", 0.01)
READING = 16 * 4096  # rows of the largest request without a gradient
WIDTH = 4  # of the embeddings of the passive party
LOWEST, HIGHEST = -(2**63), 2**63 - 1
ALIGNED, TRAINED, UNLEARNING = "aligned", "trained", "unlearning"  # states of the passive party


@dataclass(frozen=True, slots=True)
class Order:
    """A message of the active party."""

    task: int
    body: Body
    tensors: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class Wrong:
    """Orders of which the last one is wrong, the state before them, and a part of the error."""

    state: str
    cause: str
    orders: tuple[Order, ...]


def rows(*indices: int) -> tuple[Tensor, ...]:
    return (np.array(indices, np.int64),)


def command(task: int, **order: Any) -> Order:
    return Order(task, pb.ModelCommand(**order))


def batch(task: int = pb.TRAIN, learns: bool = True, **changes: Any) -> Order:
    asked = {"rows": pb.TRAIN_ROWS, "order": pb.SHUFFLED, "epoch": 1, "size": 16, "index": 0}
    request = pb.BatchRequest(**(asked | changes))
    return Order(task, request if learns else pb.Evaluate(batch=request))


def initialise(task: int = pb.TRAIN, **changes: Any) -> Order:
    found = {
        "stream": "new", "preprocessing_rows": pb.TRAIN_ROWS, "rule": encode(RULE, pb.UpdateRule),
    }  # fmt: skip
    return command(task, initialise=pb.Initialise(**(found | changes)))


def wire_rule(**changes: Any) -> pb.UpdateRule:
    found = encode(RULE, pb.UpdateRule)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def restore(task: int, slot: str = ORIGINAL, **changes: Any) -> Order:
    return command(task, restore_copy=pb.RestoreCopy(slot=slot, stream="x", **changes))


def gradient(*shape: int, task: int = pb.TRAIN, **use: Any) -> Order:
    return Order(task, pb.Gradient(**use), (np.zeros(shape),))


def forget(*indices: int, task: int = pb.UNLEARN, **use: Any) -> Order:
    return Order(task, pb.ForgetRows(**use), rows(*indices))


def plant(*indices: int) -> Order:
    return Order(pb.TRAIN, pb.PlantTrigger(), rows(*indices))


def primal(task: int = pb.UNLEARN, step_size: float = 0.1, **dual: Any) -> Order:
    return command(task, primal_step=pb.PrimalStep(step_size=step_size, **dual))


def start_fit(**changes: Any) -> Order:
    """A new model, trained as the method retrain-local trains it."""
    rule = encode(UpdateRule("adam", 2e-3), pb.UpdateRule)
    return initialise(pb.UNLEARN, preprocessing_rows=pb.RETAIN, rule=rule, **changes)


def fit(task: int = pb.UNLEARN, rows: int = pb.RETAIN, steps: int = 16, **changes: Any) -> Order:
    agreed = {"codes": pb.AUTO, "epochs": 2, "batch": 16}
    wanted = pb.LocalFit(**(agreed | changes))
    return command(task, fit_bottom=pb.FitBottom(rows=rows, steps=steps, fit=wanted))


LIST = "invalid list of row indices"
SETTINGS = "the settings of the agreement in the task"
ORDERS = {
    # Rows. A difference of two 64-bit numbers wraps around, so that a list may look ascending.
    "rows that wrap around": Wrong(TRAINED, LIST, (forget(1, LOWEST, -1, 2),)),
    "negative rows": Wrong(TRAINED, LIST, (forget(-5, 1, 2),)),
    "rows beyond the end": Wrong(TRAINED, LIST, (forget(0, 1, HIGHEST),)),
    "rows twice": Wrong(TRAINED, LIST, (forget(1, 1),)),
    "a correction of labels": Wrong(TRAINED, "to correct labels", (forget(1, 2, corrects=True),)),
    "all training rows": Wrong(TRAINED, "to forget all training rows", (forget(*range(210)),)),
    "a request during a request": Wrong(UNLEARNING, "the purge of the first", (forget(100),)),
    "a request in training": Wrong(
        TRAINED, "a request in the task train", (forget(1, 2, task=pb.TRAIN),)
    ),
    "triggers that wrap around": Wrong(TRAINED, LIST, (plant(1, LOWEST, -1, 2),)),
    "a trigger in other rows": Wrong(TRAINED, "not training rows", (plant(*range(150)),)),
    # Batches and gradients.
    "a prediction in training": Wrong(
        TRAINED, "sent Predict, which a passive party does not answer in training",
        (Order(pb.TRAIN, pb.Predict(), rows(0)),),
    ),
    "a batch without a model": Wrong(ALIGNED, "none was initialised", (batch(),)),
    "a gradient of more rows than a part of a reading": Wrong(
        TRAINED, "legal: 4096", (batch(order=pb.BY_INDEX, size=READING),)
    ),
    "a reading of more rows": Wrong(
        TRAINED,
        "legal: 4096",
        (batch(pb.EVALUATE, learns=False, order=pb.BY_INDEX, size=READING + 1),),
    ),
    "batches of one row": Wrong(TRAINED, "legal: 16 rows up to epoch 2", (batch(size=1),)),
    "an epoch too many": Wrong(TRAINED, "of 16 rows in epoch 3", (batch(epoch=3),)),
    "gradients of test rows": Wrong(TRAINED, "gradient of the rows TEST", (batch(rows=pb.TEST),)),
    "a batch beyond the end": Wrong(TRAINED, "the row set has only", (batch(index=2**32 - 1),)),
    "a gradient of another shape": Wrong(
        TRAINED, "Gradient has tensors", (batch(), gradient(16, 3, descend=pb.Descend())),
    ),
    "a step without an optimiser": Wrong(
        UNLEARNING, "an optimiser step",
        (batch(pb.UNLEARN, rows=pb.RETAIN), gradient(16, WIDTH, descend=pb.Descend())),
    ),
    "micro-batches that are not agreed": Wrong(
        TRAINED, "micro-batches", (batch(), gradient(16, WIDTH, accumulate=pb.Accumulate())),
    ),
    "a scaled step that is not agreed": Wrong(
        TRAINED, "a scaled learning rate",
        (batch(), gradient(16, WIDTH, descend=pb.Descend(scale=0.5))),
    ),
    "a step that is scaled up": Wrong(
        TRAINED, "descend.scale", (batch(), gradient(16, WIDTH, descend=pb.Descend(scale=1.5))),
    ),
    # Local fits.
    "a local fit that is not agreed": Wrong(TRAINED, "the local fit", (fit(pb.TRAIN, pb.RETAIN),)),
    "a local fit to forgotten rows": Wrong(
        UNLEARNING, "to the rows FORGOTTEN in the task unlearn; legal: RETAIN",
        (start_fit(), fit(rows=pb.FORGOTTEN)),
    ),
    "a local fit to all training rows": Wrong(
        UNLEARNING, "to the rows TRAIN_ROWS in the task unlearn", (fit(rows=pb.TRAIN_ROWS),)
    ),
    "a local fit in an evaluation": Wrong(TRAINED, "in the task evaluate", (fit(pb.EVALUATE),)),
    "other codes": Wrong(UNLEARNING, "the local fit", (start_fit(), fit(codes=pb.PROJECTION))),
    "codes of patches that are not agreed": Wrong(
        UNLEARNING, "the local fit", (start_fit(), fit(codes=pb.PATCHES))
    ),
    "old embeddings as codes that are not agreed": Wrong(
        UNLEARNING, "the local fit", (start_fit(), fit(codes=pb.TRAINED))
    ),
    "a local fit of a restored model": Wrong(
        UNLEARNING, "a new model with the rule of the fit",
        (restore(pb.UNLEARN, rule=encode(UpdateRule("adam", 2e-3), pb.UpdateRule)), fit()),
    ),
    "a longer local fit by a copy": Wrong(
        UNLEARNING, "a new model with the rule of the fit",
        (start_fit(), fit(), command(pb.UNLEARN, keep_copy=pb.KeepCopy(slot="w")),
         restore(pb.UNLEARN, "w", rule=encode(UpdateRule("adam", 2e-3), pb.UpdateRule)), fit()),
    ),
    "a longer local fit": Wrong(UNLEARNING, "the local fit", (start_fit(), fit(epochs=3))),
    "smaller batches of a local fit": Wrong(
        UNLEARNING, "the local fit", (start_fit(), fit(batch=1))
    ),
    "a local fit of the trained model": Wrong(UNLEARNING, "with the rule of the fit", (fit(),)),
    "a local fit without a model": Wrong(ALIGNED, "none was initialised", (fit(),)),
    "steps beyond the end of a local fit": Wrong(
        UNLEARNING, "the local fit's step 32; legal: at most", (start_fit(), fit(), fit())
    ),
    "a local fit without steps": Wrong(UNLEARNING, "fit_bottom.steps", (start_fit(), fit(steps=0))),
    "too many steps at a time": Wrong(UNLEARNING, "fit_bottom.steps", (start_fit(), fit(steps=65))),
    "a fresh model on forgotten rows": Wrong(
        UNLEARNING, SETTINGS,
        (initialise(pb.UNLEARN, preprocessing_rows=pb.FORGOTTEN, rule=wire_rule()),),
    ),
    # Models and update rules.
    "another learning rate": Wrong(
        TRAINED, SETTINGS, (initialise(rule=wire_rule(learning_rate=0.1)),)
    ),
    "a learning rate that is no number": Wrong(
        TRAINED, "initialise.rule.learning_rate", (initialise(rule=wire_rule(learning_rate=nan)),)
    ),
    "preprocessing for other rows": Wrong(
        TRAINED, SETTINGS, (initialise(preprocessing_rows=pb.TEST),)
    ),
    "preprocessing for half of the rows without shadow models": Wrong(
        TRAINED, SETTINGS, (initialise(preprocessing_rows=pb.SHADOW_HALF),)
    ),
    "a shard": Wrong(TRAINED, "a model without shards", (initialise(shard=0),)),
    "an unknown copy": Wrong(TRAINED, "stores no copy of this name", (restore(pb.TRAIN, "none"),)),
    "a rule of no method": Wrong(
        UNLEARNING, SETTINGS, (restore(pb.UNLEARN, rule=wire_rule(learning_rate=5.0)),)
    ),
    "an attack that is not agreed": Wrong(
        UNLEARNING, SETTINGS, (restore(pb.RELEARN, rule=wire_rule()),)
    ),
    # Steps of methods.
    "a step too long": Wrong(
        UNLEARNING, "at most 20.0",
        (command(pb.UNLEARN, ascent_step=pb.AscentStep(step_size=21.0)),),
    ),
    "an infinite step": Wrong(
        UNLEARNING, "ascent_step.step_size (legal: at least 0, finite)",
        (command(pb.UNLEARN, ascent_step=pb.AscentStep(step_size=inf)),),
    ),
    "a step without a gradient": Wrong(
        TRAINED, "a held gradient before it", (primal(multiplier=0.5),)
    ),
    "a dual too large": Wrong(UNLEARNING, "with the dual 7.0", (primal(multiplier=7.0),)),
    "noise that is not agreed": Wrong(
        UNLEARNING,
        "noise of 0.1",
        (primal(step_size=0.1, multiplier=0.5, noise=pb.PrimalNoise(deviation=0.1, draw=1)),),
    ),
    "a primal step too long": Wrong(
        UNLEARNING, "a primal step of 3.0", (primal(step_size=3.0, multiplier=0.5),)
    ),
    "duals of each parameter": Wrong(
        UNLEARNING, "the dual of every parameter",
        (primal(literal=pb.LiteralDual(step_size=0.1, threshold=1.0, max=1.0)),),
    ),
    "other shares of fresh weights": Wrong(
        UNLEARNING, "to shrink bottom models by 1.0",
        (command(pb.UNLEARN, shrink=pb.Shrink(stream="x", bottom=1.0, top=1.0)),),
    ),
    "Newton's method": Wrong(
        UNLEARNING, "training.optimiser adam",
        (command(pb.UNLEARN, newton=pb.Newton(noise=pb.Newton.Noise(sigma=1.0))),),
    ),
    "an ensemble without shards": Wrong(
        TRAINED, "none without shards",
        (command(pb.EVALUATE, use_ensemble=pb.UseEnsemble(slots=[ORIGINAL])),),
    ),
    # Checkpoints and the end.
    "a number of a checkpoint": Wrong(
        TRAINED, "to write checkpoint",
        (command(pb.CHECKPOINT, write_checkpoint=pb.WriteCheckpoint(checkpoint=2**60)),),
    ),
    "to delete all checkpoints": Wrong(
        TRAINED, "to delete the checkpoints before",
        (command(pb.CHECKPOINT, prune_checkpoints=pb.PruneCheckpoints(checkpoint=2**60)),),
    ),
    "a purge without a request": Wrong(
        TRAINED, "a request before it", (Order(pb.UNLEARN, pb.Purge()),)
    ),
    "an end without a model": Wrong(ALIGNED, "none was init", (Order(pb.CLOSE, pb.Goodbye()),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of three parties, and the passive party's folder in each state."""
    folder = tmp_path_factory.mktemp("orders")
    own = folder / "runs" / "trio" / "left"
    with open_split_model(folder, **PLAN) as (split_model, _):

        def keep(name: str) -> None:
            split_model.once(name, float, lambda: 1.0)
            split_model.checkpoint()
            copytree(own, folder / name)

        keep(ALIGNED)
        start_training(split_model, "original")
        split_model.keep_copy(ORIGINAL, pb.TRAIN)
        keep(TRAINED)
        forget_some(split_model)
        run = NetworkRun(split_model)
        run.start(ORIGINAL, "x")
        hold_forget_gradient(run)
        keep(UNLEARNING)
    return folder


def passive_party(folder: Path, state: str) -> VerticalParty:
    """The passive party with its folder in a state."""
    own = folder / "runs" / "trio" / "left"
    rmtree(own)
    copytree(folder / state, own)
    return party(folder, "left", agreement(**PLAN), [])


def digest(session: Any, us: VerticalParty) -> str:
    """A digest of everything that an order may change."""
    state = cast(PassiveSession, session).state
    content = state.content()
    groups = {name: list(group.values()) for name, group in content.tensors.items()}
    model = state.local_model
    gradients = [p.grad for p in model.model.block if p.grad is not None] if model.has_model else []
    return digest_of(content.values, {**groups, "gradients": gradients}, us.state)


def resumed(folder: Path, state: str) -> tuple[Spoke, Channel]:
    """A passive party in a state, and the channel of the hub to it."""
    us, port = passive_party(folder, state), MemoryPort()
    checkpoints = party_checkpoints(us)

    def open_session() -> tuple[Channel, PassiveSession]:
        channel = handshake.join_hub(us, lambda: port.connect("left"), checkpoints.offer(), 20.0)
        start = partial(start_party_state, us, channel, checkpoints)
        return channel, PassiveSession(us, channel, checkpoints, start)

    def close(channel: Channel, error: Exception | None) -> None:
        if error is not None:
            channel.abort(*abort_reason(error))
        channel.close()

    spoke = start_spoke(open_session, lambda session: digest(session, us), close)
    hub, offer = admit_from(party(folder, "hub", agreement(**PLAN), []), port)
    hub.place = place(pb.CHECKPOINT)
    hub.send(pb.Resume(checkpoint=max(offer.numbers)))
    hub.receive(20.0).expect(pb.Resumed)
    return spoke, hub


def reply_to(hub: Channel, order: Order) -> Message:
    """Send an order, and return the reply."""
    epoch = order.body.epoch if isinstance(order.body, pb.BatchRequest) else 0
    hub.place = place(order.task, epoch=epoch)
    send_anything(hub, order.body, *order.tensors)
    return hub.receive(20.0)


@pytest.mark.parametrize("name", ORDERS)
def test_wrong_order(states: Path, name: str) -> None:
    wrong = ORDERS[name]
    spoke, hub = resumed(states, wrong.state)
    for legal in wrong.orders[:-1]:
        reply_to(hub, legal)
    with pytest.raises((Aborted, LineBroken)) as told:
        reply_to(hub, wrong.orders[-1])
    error = spoke.ended().error
    assert isinstance(error, RemoteProtocolError)
    assert exit_code(error) == 6
    assert str(error).startswith("hub: ")
    assert wrong.cause in str(error)
    if isinstance(told.value, Aborted):  # no message may follow a Goodbye
        assert told.value.code == "protocol"
    assert spoke.before == spoke.after != ""


def test_unknown_checkpoint_is_refused(states: Path) -> None:
    us, port = passive_party(states, TRAINED), MemoryPort()
    checkpoints = party_checkpoints(us)
    numbers = checkpoints.offer().numbers

    def open_session() -> tuple[Channel, PassiveSession]:
        channel = handshake.join_hub(us, lambda: port.connect("left"), checkpoints.offer(), 20.0)
        start = partial(start_party_state, us, channel, checkpoints)
        return channel, PassiveSession(us, channel, checkpoints, start)

    spoke = start_spoke(open_session, lambda _: "", lambda channel, _: channel.close())
    hub, _ = admit_from(party(states, "hub", agreement(**PLAN), []), port)
    hub.place = place(pb.CHECKPOINT)
    hub.send(pb.Resume(checkpoint=2**60))
    error = spoke.ended().error
    assert exit_code(cast(Exception, error)) == 6
    assert str(error).startswith("the hub asks left to resume checkpoint")
    assert checkpoints.offer().numbers == numbers


def legal_orders() -> Iterator[tuple[str, Order]]:
    """Orders that the agreement allows in each state."""
    yield ALIGNED, initialise()
    yield TRAINED, batch()
    yield TRAINED, batch(pb.EVALUATE, learns=False, order=pb.BY_INDEX, size=4096)
    yield TRAINED, batch(pb.EVALUATE, learns=False, order=pb.BY_INDEX, size=READING)
    yield TRAINED, forget(1, 2, 3)
    yield UNLEARNING, command(pb.UNLEARN, ascent_step=pb.AscentStep(step_size=20.0))
    yield UNLEARNING, primal(step_size=1.0, multiplier=1.0)
    yield UNLEARNING, command(pb.UNLEARN, shrink=pb.Shrink(stream="x", bottom=0.3, top=0.0))
    yield UNLEARNING, Order(pb.UNLEARN, pb.Purge())
    yield UNLEARNING, start_fit()


@pytest.mark.parametrize(("state", "order"), [*legal_orders()], ids=lambda each: str(each)[:40])
def test_agreed_order_is_carried_out(states: Path, state: str, order: Order) -> None:
    """The same hub, with orders at the limits of the agreement."""
    spoke, hub = resumed(states, state)
    reply_to(hub, order)
    hub.line.close()
    assert "closed" in str(spoke.ended().error)


def test_second_request_is_refused_while_the_first_one_is_not_purged(tmp_path: Path) -> None:
    """Also if the first one has no training rows."""
    with open_split_model(tmp_path, **PLAN) as (split_model, _):
        start_training(split_model, "original")
        held_out, learned = split_model.rows.validation[:5], split_model.rows.train[:5]
        split_model.forget(held_out)
        with pytest.raises(Aborted, match="the purge of the first request"):
            split_model.forget(learned)


@pytest.mark.parametrize("absent", [set(), {"fresh", "unpurged"}], ids=["this version", "earlier"])
def test_checkpoint_restores_what_the_checks_need(tmp_path: Path, absent: set[str]) -> None:
    """Earlier versions wrote neither key, and accepted a fit in every task."""
    with open_split_model(tmp_path, **PLAN) as (split_model, sessions):
        start_training(split_model, "original")
        split_model.keep_copy(ORIGINAL, pb.TRAIN)
        split_model.forget(split_model.rows.train[:5])
        split_model.restore_copy(ORIGINAL, "x", pb.UNLEARN)
        session = sessions["left"]
        content = session.state.content()
        values = {key: value for key, value in content.values.items() if key not in absent}
        read = PartyState.from_content(
            session._party, replace(content, values=values), session._network
        )
    assert read.unpurged
    assert read.local_model.task.fresh is bool(absent)
