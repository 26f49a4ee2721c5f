"""Sharded, the exact way: fresh models for the shards that D_u taught, all others as they were."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from parties.vertical.engine.split_model import Federation
from parties.vertical.methods.method import ORIGINAL, Facts
from parties.vertical.training_run import train_shards
from protocol import vfl_pb2
from unlearning import sharding
from unlearning.guarantee import Guarantee

Digests: TypeAlias = dict[str, dict[str, str]]  # shard -> party -> SHA-256


@dataclass(frozen=True, slots=True)
class Sharded:
    """Bit for bit the model of a run that never had the rows."""

    name: str = "sharded"
    guarantee: Guarantee = Guarantee.EXACT

    def run(self, federation: Federation) -> Facts:
        """Train the touched shards again from the original's own streams."""
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        members = dict(enumerate(federation.members))
        before = federation.once("digests before", dict, lambda: _digests(federation, members))
        touched = sharding.touched(federation.state.shards, federation.rows.forgotten)
        fresh, _ = train_shards(federation, vfl_pb2.RETAIN, ORIGINAL, self.name, touched)
        members |= fresh
        federation.assemble(list(members.values()))
        after = federation.once("digests after", dict, lambda: _digests(federation, members))
        return Facts({"sharding": _figures(touched, before, after)})


def _digests(federation: Federation, members: dict[int, str]) -> Digests:
    """The SHA-256 of every party's part of every member."""
    found = {}
    for shard, slot in members.items():
        arrange = vfl_pb2.Arrange(digest=vfl_pb2.Digest(slot=slot))
        reports = federation.everybody(vfl_pb2.EVALUATE, arrange)
        found[str(shard)] = {name: each.digest.hex() for name, each in reports.items()}
    return found


def _figures(touched: list[int], before: Digests, after: Digests) -> dict[str, Any]:
    return {
        "shards": len(after),
        "touched": touched,
        "digests": [
            {"shard": int(shard), "before": before[shard], "after": after[shard]} for shard in after
        ],
    }
