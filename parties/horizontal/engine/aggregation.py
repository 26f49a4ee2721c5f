"""Aggregation in a horizontal run: its privacy claim, and the mean of personal parameters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from torch import Tensor

from configs.federated import FederatedAgreement, SecureAggregation
from configs.horizontal import HorizontalAgreement
from parties.horizontal.engine.cohort import Member, Trainer
from parties.horizontal.local.local_task import LocalTask

SIMULATED_CLAIM = "a simulation: its machines see every update, and nothing is masked or encrypted"
_SUM = "a sum still reveals information about its members, and no (ε, δ) is claimed"
_INPUTS = (
    "; with SFU the server also sees inputs of the layers, and the inputs of the first layer are "
    "rows of the remaining clients"
)


def horizontal_aggregation_claim(agreement: HorizontalAgreement) -> dict[str, Any]:
    """Return the privacy claim of a horizontal run.

    If the method SFU is used, the claim also states that the server sees inputs of the layers.
    """
    claim, plan = aggregation_claim(agreement), agreement.unlearning
    methods = (plan.method, *plan.compare, *(each.method for each in plan.variants))
    if agreement.unlearn and "sfu" in methods:
        claim["claim"] += _INPUTS
    return claim


def aggregation_claim(agreement: FederatedAgreement) -> dict[str, Any]:
    """Return the settings of secure aggregation and the privacy claim, for the record of a run."""
    plan = agreement.aggregation
    claim: dict[str, Any] = {"kind": plan.kind, "claim": _sentence(plan)}
    if plan.kind != "none":
        claim["min_contributors"] = plan.min_contributors
    if plan.kind == "ckks":
        claim["key_holders"] = list(plan.key_holders or agreement.spokes)
    return claim


def _sentence(plan: SecureAggregation) -> str:
    match plan.kind:
        case "none":
            return "the server sees every client's update"
        case "masks":
            return (
                "a server that follows the protocol sees only sums over "
                f"{plan.min_contributors} clients or more; a minority of clients cannot help the "
                f"server to obtain sums over fewer clients; {_SUM}"
            )
        case "ckks":
            who = "any one of the key holders" if plan.key_holders else "any one client"
            return (
                "a server that follows the protocol sees only sums over "
                f"{plan.min_contributors} clients or more; if {who} gives the server the key of a "
                f"sum, the server can decrypt every single update in the sum; {_SUM}"
            )
    assert_never(plan.kind)


def add_personal_parameters(
    trainer: Trainer, members: Sequence[Member], task: LocalTask, model: Tensor
) -> Tensor:
    """Return a copy of ``model`` with the members' mean personal parameters; both are ``[d]``.

    To compute the mean, the members send their personal parameters to the server.
    """
    own = trainer.mean_update(members, replace(task, aim="personal-model"), {"model": model})
    return model + own.delta.to(model.dtype)
