"""Figures where there is nothing to measure in: said, never divided by zero."""

import torch

from configs.agreement import Request
from parties.common.json_files import canonical
from parties.vertical.evaluation.canary_audit import verdict
from parties.vertical.evaluation.compare import Comparison, Cost, Outcome
from parties.vertical.evaluation.metrics import _divergences
from parties.vertical.evaluation.row_groups import Ground

NONE = torch.empty(0, dtype=torch.int64).numpy()


def outcome(name: str, lean: float) -> Outcome:
    logits = torch.tensor([[lean, 0.0], [0.0, lean]])
    parts = dict.fromkeys(("forgotten", "retained", "validation", "test"), logits)
    return Outcome(name, parts, Cost(1.0, 1, 1))


def test_retrains_that_do_not_differ_give_no_ratio() -> None:
    retrains = [outcome(name, 1.0) for name in ("retrain", "retrain-2")]
    original = outcome("original", 3.0)
    found = Comparison(Request(name="request"), "fedora", [original, *retrains])
    where = Ground({}, torch.tensor([0, 1]).numpy(), NONE, NONE, NONE, NONE, 0)
    divergence = _divergences(original, found, where)
    assert divergence["forgotten"]["js"] > 0
    assert divergence["forgotten"]["ratio"] is None
    canonical(divergence)  # a number that is not finite would be refused


def test_a_canary_audit_without_a_unit_says_so() -> None:
    assert "no unit" in verdict({"original_ratio": None, "fedora_ratio": None}, "fedora")
