"""What the run's record says of secure aggregation: who sees what, and who could see more."""

from typing import Any, assert_never

from configs.federated import Federated, SecureAggregation
from configs.horizontal import Horizontal

SIMULATED = "a simulation: its machines see every update, and nothing is masked or encrypted"
_SUM = "a sum still says what it says of everybody in it; no (ε, δ) is claimed"

_ROWS = ", and with SFU inputs of the layers, the first of which are rows of those who stay"


def with_inputs(agreement: Horizontal) -> dict[str, Any]:
    """The same where some ways to unlearn tell more."""
    told, ways = promise(agreement), agreement.unlearning
    run = (ways.method, *ways.compare, *(each.method for each in ways.also))
    if agreement.unlearn and "sfu" in run:
        told["promise"] += _ROWS
    return told


def promise(agreement: Federated) -> dict[str, Any]:
    """The settings of the sums, and what they promise, in words."""
    plan = agreement.aggregation
    told: dict[str, Any] = {"kind": plan.kind, "promise": _words(plan)}
    if plan.kind != "none":
        told["least"] = plan.least
    if plan.kind == "ckks":
        told["keepers"] = list(plan.keepers or agreement.spokes)
    return told


def _words(plan: SecureAggregation) -> str:
    match plan.kind:
        case "none":
            return "the server sees every client's update"
        case "masks":
            return (
                f"a server that follows the protocol sees sums of {plan.least} clients or more; "
                f"no minority of clients can help it to one of fewer; {_SUM}"
            )
        case "ckks":
            who = "any one of the keepers" if plan.keepers else "any one client"
            return (
                f"a server that follows the protocol sees sums of {plan.least} clients or more; "
                f"{who} that gives it the key of a sum opens every single update in it; {_SUM}"
            )
    assert_never(plan.kind)
