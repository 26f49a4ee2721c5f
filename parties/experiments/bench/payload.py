"""How many bytes of tensors FedORA has to exchange, worked out from its settings alone."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from configs.agreement import Agreement

BYTES = {"float32": 4, "float64": 8}


def is_exact(agreement: Agreement) -> bool:
    """Whether the formula covers this run: no pass for a threshold, none after the last step."""
    plan = agreement.unlearning.fedora
    return plan.policy == "uniform" and plan.start == "original" and not plan.calibrate


def expected(agreement: Agreement, request: Mapping[str, Any], validation: int) -> int:
    """Bytes of embeddings and gradients of one run of FedORA, over all passive parties.

    An outer iteration takes 2 · 4 · d_h (n_u + R B) bytes at each passive party (FedORA, Table II,
    as bytes): embeddings up, gradients down. The last batch of an epoch may be smaller than B. A
    look at the validation rows, one before the first iteration included, takes 4 · d_h n_v.
    """
    plan, steps = agreement.unlearning.fedora, request["iterations"]
    wide = sum(agreement.parties[name].width or 0 for name in agreement.passive)
    number = BYTES[agreement.dtype] * wide
    size, retained = plan.batch or agreement.training.batch, int(request["retained"])
    batches, asked = ceil(retained / size), len(steps) * ceil(plan.retain_share * retained / size)
    learned = sum(min(size, retained - at % batches * size) for at in range(asked))
    forgotten = int(request["forgotten"])
    if plan.score_rows is not None:
        forgotten = min(forgotten, plan.score_rows)
    looks: int = 1 + sum(step["validation_accuracy"] is not None for step in steps)
    total: int = number * (2 * (len(steps) * forgotten + learned) + looks * validation)
    return total
