"""Metrics without a unit of measurement are reported as absent, without a division by zero."""

import torch

from configs.agreement import RowRequest
from parties.common.json_files import canonical_json
from parties.requests.driver import Cost
from parties.vertical.evaluation.canary_audit import canary_result
from parties.vertical.evaluation.metrics import _divergences
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.row_groups import RowGroups

NONE = torch.empty(0, dtype=torch.int64).numpy()


def outcome(name: str, lean: float) -> MethodOutcome:
    logits = torch.tensor([[lean, 0.0], [0.0, lean]])
    parts = dict.fromkeys(("forgotten", "retained", "validation", "test"), logits)
    return MethodOutcome(name, parts, Cost(1.0, 1, 1))


def test_equal_retrains_give_no_ratio() -> None:
    retrains = [outcome(name, 1.0) for name in ("retrain", "retrain-2")]
    original = outcome("original", 3.0)
    comparison = Comparison(RowRequest(name="request"), "fedora", [original, *retrains])
    groups = RowGroups({}, torch.tensor([0, 1]).numpy(), NONE, NONE, NONE, NONE, 0)
    divergence = _divergences(original, comparison, groups)
    assert divergence["forgotten"].js > 0
    assert divergence["forgotten"].ratio is None
    canonical_json(divergence["forgotten"].plain())  # a number that is not finite would be refused


def test_canary_audit_without_a_unit_reports_it() -> None:
    assert "no unit" in canary_result(None, None, None, "FedORA")
