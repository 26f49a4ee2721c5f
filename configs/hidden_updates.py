"""What secure aggregation leaves possible: the ways to forget that need nobody's update alone."""

from collections.abc import Iterator, Sequence
from typing import get_args

from configs.client_unlearning import ClientMethod, ClientUnlearning

# These look at single clients' updates; a test compares them with the methods themselves.
SINGLE: frozenset[ClientMethod] = frozenset(
    ("fedosd", "fedforget", "federaser", "fedrecovery", "fu-pga", "sfu", "mimir")
)
# These take a mean over those who leave, which is one client's update when one client leaves.
LEAVING: frozenset[ClientMethod] = frozenset(
    ("mode", "ewc-sga", "adaclipping-like", "fedmm", "fedgkt")
)
# These go back to a model and sum there once more, with the same batches, without who leaves: the
# sums of the training minus these are one client's update when one client leaves.
REPLAYS: frozenset[ClientMethod] = frozenset(("knot",))


def refused(
    kind: str, chosen: Sequence[tuple[str, ClientMethod]], *, one_leaves: bool
) -> Iterator[str]:
    """A sentence for every setting, named with its method, that needs what ``kind`` hides."""
    hidden = SINGLE | LEAVING | REPLAYS if one_leaves else SINGLE
    legal = ", ".join(each for each in get_args(ClientMethod) if each not in hidden)
    for field, method in chosen:
        if method in SINGLE:
            need = "needs single clients' updates"
        elif method in hidden & REPLAYS:
            need = "shows, beside the training's sums, the update of the one client that leaves"
        elif method in hidden:
            need = "needs the update of the one client that leaves"
        else:
            continue
        yield (
            f"{field}: {method!r} {need}, which aggregation.kind = {kind!r} hides; "
            f"legal with it: {legal}"
        )


def told_classes(kind: str, plan: ClientUnlearning) -> Iterator[str]:
    """A sentence for every gate by classes, which those who leave tell: no sum has room for it."""
    gates = [
        (f"unlearning.also, {each.name!r}: by", plan.at(each).fedgkt.by)
        for each in plan.also
        if each.method == "fedgkt"
    ]
    if "fedgkt" in (plan.method, *plan.compare):
        gates.append(("unlearning.fedgkt.by", plan.fedgkt.by))
    for field, by in gates:
        if by == "classes":
            yield (
                f"{field} = 'classes' has who leaves tell its classes, which are no part of a sum "
                f"of models as with aggregation.kind = {kind!r}; legal are by = 'features', which "
                "needs personal.kind = 'mimir', or aggregation.kind = 'none'"
            )
