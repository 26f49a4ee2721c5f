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
    plan, done = agreement.unlearning, (record.get("facts") or {}).get("losses") or ()
    portion = plan.ico_like.share * request["retained"]
    counts: dict[str, float] = {
        "fedora": len(request["iterations"] or ()),
        "gradient-ascent": len(done),
        "ico-like": plan.ico_like.steps / ceil(portion / agreement.training.batch),
        "cvfu": len(done),
        "fine-tune": plan.fine_tune.epochs,
        "relabel": plan.relabel.epochs,
        "top-only": plan.top_only.epochs,
        "shrink-perturb": plan.shrink_perturb.epochs,
    }
    count = agreement.training.epochs if name.startswith("retrain") else counts.get(name, 0)
    return float(count) or None
