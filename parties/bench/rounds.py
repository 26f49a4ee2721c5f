"""How many unlearning rounds a method made: what the paper's times are divided by."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from configs.agreement import Agreement


def rounds(
    name: str,
    agreement: Agreement,
    request: Mapping[str, Any],
    record: Mapping[str, Any],
) -> float | None:
    """The rounds of ``name``; None where the method has none.

    A round is one pass over the rows that the method uses: an epoch over D_r for Retrain and
    fine-tuning, a step over all of D_u for gradient ascent, one outer iteration for FedORA, an
    epoch over its fixed part of D_r for ICO-like, one epoch of CVFU. The paper does not say what
    its round is.
    """
    plan, retained = agreement.unlearning, request["retained"]
    if name.startswith("retrain"):
        return agreement.training.epochs
    match name:
        case "fedora":
            return len(request["iterations"] or ()) or None
        case "gradient-ascent":
            return len((record.get("facts") or {}).get("losses") or ()) or plan.ascent.steps
        case "ico-like":
            batches = ceil(plan.ico_like.share * retained / agreement.training.batch)
            return plan.ico_like.steps / batches
        case "cvfu":
            return plan.cvfu.epochs
        case "fine-tune":
            return plan.fine_tune.epochs
        case "relabel":
            return plan.relabel.epochs
        case "top-only":
            return plan.top_only.epochs
        case "shrink-perturb":
            return plan.shrink_perturb.epochs
    return None
