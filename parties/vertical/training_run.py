"""Training for good in the way that the agreement names: batches, Newton steps, or shards."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from parties.vertical.engine.newton import Walk, release, walk_to_optimum
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import Epoch, Plan, learn
from protocol import vfl_pb2


def train(
    federation: Federation,
    rows: vfl_pb2.Rows,
    stream: str,
    name: str,
    early: int | None = None,
) -> list[Epoch]:
    """Train a fresh model on ``rows``, preprocessing included; ``early`` as in ``Plan``."""
    agreement = federation.agreement
    if agreement.sharding.shards > 1:
        slots, epochs = train_shards(federation, rows, stream, name)
        federation.assemble(list(slots.values()))
        return epochs
    federation.fresh(stream, rows, vfl_pb2.TRAIN)
    if agreement.training.optimiser == "newton-cg":
        return _solve(federation, Walk(name, vfl_pb2.TRAIN, rows, agreement.newton.bound))
    return learn(federation, replace(_plan(federation, rows, name), early=early))


def train_shards(
    federation: Federation,
    rows: vfl_pb2.Rows,
    stream: str,
    name: str,
    which: Iterable[int] | None = None,
) -> tuple[dict[int, str], list[Epoch]]:
    """Train fresh models of some shards, all unless told; the slot of each, and their mean epochs.

    A shard draws weights and batch order from a stream of its own, and its order is that of its
    rows' IDs, so that it is the same model whatever else there is or was.
    """
    slots, courses = {}, []
    every = range(federation.agreement.sharding.shards)
    for shard in every if which is None else which:
        federation.fresh(f"{stream}/{shard}", rows, vfl_pb2.TRAIN, shard)
        plan = replace(_plan(federation, rows, f"{name}, shard {shard}"), looks=False)
        courses.append(learn(federation, plan))
        slots[shard] = f"{name}/{shard}"
        federation.keep(slots[shard], vfl_pb2.TRAIN)
    return slots, [_mean(epochs) for epochs in zip(*courses, strict=True)]


def _plan(federation: Federation, rows: vfl_pb2.Rows, name: str) -> Plan:
    plan = federation.agreement.training
    return Plan(name, vfl_pb2.TRAIN, rows, plan.epochs, plan.batch, plan.patience)


def _solve(federation: Federation, walk: Walk) -> list[Epoch]:
    """Walk to the optimum; every released model bears the agreed noise."""
    walked = walk_to_optimum(federation, walk)
    release(federation, walk, walked[-1].bound)
    return [each.epoch for each in walked[1:] or walked]


def _mean(epochs: Sequence[Epoch]) -> Epoch:
    """What one epoch did, over the shards."""
    return Epoch(epochs[0].epoch, sum(each.loss for each in epochs) / len(epochs))
