"""Rules of secure aggregation: methods that work if the server sees only sums of updates."""

from collections.abc import Iterator, Sequence

from configs.client_unlearning import ClientMethodSettings, ClientUnlearning

# These methods read single clients' updates; a test compares this list with the methods.
SINGLE: frozenset[str] = frozenset(
    ("fedosd", "fedforget", "federaser", "fedrecovery", "fu-pga", "sfu", "mimir")
)
# These methods take a mean over the leaving clients: one client's update if one client leaves.
LEAVING: frozenset[str] = frozenset(("mode", "ewc-sga", "adaclipping-like", "fedmm", "fedgkt"))
# These methods return to an earlier model and repeat its rounds without the leaving clients. The
# sums of the training minus the repeated sums are one client's update if one client leaves.
REPLAYS: frozenset[str] = frozenset(("knot",))


def method_problems(
    kind: str, plan: ClientUnlearning, chosen: Sequence[tuple[str, str]], *, one_leaves: bool
) -> Iterator[str]:
    """Yield an error message for each chosen method that cannot work with aggregation ``kind``.

    ``chosen`` contains pairs of a config key and a method that the key names; ``one_leaves`` is
    True if a request removes a single client.
    """
    hidden = SINGLE | LEAVING | REPLAYS if one_leaves else SINGLE
    legal = ", ".join(each for each in plan.methods() if each not in hidden)
    for field, method in chosen:
        if method in SINGLE:
            need = "needs the update of each client, but the server receives only their sum"
        elif method in hidden & REPLAYS:
            need = (
                "reveals, together with the sums of training, the leaving client's update, but "
                "this update must stay secret"
            )
        elif method in hidden:
            need = (
                "needs the update of the one leaving client, but the server receives only sums of "
                "updates"
            )
        else:
            continue
        yield (
            f"{field}: {method!r} {need} (with aggregation.kind = {kind!r}); legal methods: {legal}"
        )


def settings_problems(kind: str, plan: ClientUnlearning) -> Iterator[str]:
    """Yield an error message for each method whose settings cannot work with sums of updates."""
    for place, table in plan.tables():
        problem = table.problem_with_sums(kind) if isinstance(table, ClientMethodSettings) else None
        if problem is not None:
            yield f"{place}{problem}"
