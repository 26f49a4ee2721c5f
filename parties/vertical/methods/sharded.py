"""Sharded, exact unlearning: retrain the shards that contain rows of D_u, keep the other shards."""

from typing import Any, ClassVar, TypeAlias

from parties.report.method_names import Label
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import train_shards
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.single import SingleState, SingleStepMethod
from protocol import vfl_pb2
from unlearning import sharding

Digests: TypeAlias = dict[str, dict[str, str]]  # shard -> party -> SHA-256


class ShardedMethod(SingleStepMethod):
    """Sharded retraining: the result is bit for bit the model of a run without the rows of D_u."""

    name: ClassVar = "sharded"
    label: ClassVar = Label("Sharded", "shards with forgotten rows are retrained")

    def unlearn(self, run: NetworkRun) -> SingleState:
        """Retrain the shards that contain rows of D_u, from their original random streams."""
        split_model = run.split_model
        split_model.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        members = dict(enumerate(split_model.ensemble))
        before = split_model.once("digests before", dict, lambda: _digests(split_model, members))
        affected = sharding.affected_shards(split_model.state.shards, split_model.rows.forgotten)
        fresh, _ = train_shards(split_model, vfl_pb2.RETAIN, ORIGINAL, self.name, affected)
        members |= fresh
        split_model.use_ensemble(list(members.values()))
        after = split_model.once("digests after", dict, lambda: _digests(split_model, members))
        return SingleState({"sharding": _record(affected, before, after)})


def _digests(split_model: SplitModel, members: dict[int, str]) -> Digests:
    """The SHA-256 digest of each party's part of each shard's model."""
    found = {}
    for shard, slot in members.items():
        command = vfl_pb2.ModelCommand(report_digest=vfl_pb2.ReportDigest(slot=slot))
        reports = split_model.command_all(vfl_pb2.EVALUATE, command)
        found[str(shard)] = {name: each.digest.hex() for name, each in reports.items()}
    return found


def _record(affected: list[int], before: Digests, after: Digests) -> dict[str, Any]:
    return {
        "shards": len(after),
        "touched": affected,
        "digests": [
            {"shard": int(shard), "before": before[shard], "after": after[shard]} for shard in after
        ],
    }
