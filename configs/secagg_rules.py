"""Rules of secure aggregation: methods that work if the server sees only sums of updates."""

from collections.abc import Iterator, Sequence

from configs.client_unlearning import (
    REPEATED_SUMS,
    ClientMethodSettings,
    ClientUnlearning,
    Reads,
)

# What secure aggregation hides: always, and if a request removes a single client.
HIDDEN: tuple[Reads, ...] = ("each update", "leaving update", REPEATED_SUMS)


def method_problems(
    kind: str, plan: ClientUnlearning, chosen: Sequence[tuple[str, str]], *, one_leaves: bool
) -> Iterator[str]:
    """Yield an error message for each chosen method that cannot work with aggregation ``kind``.

    ``chosen`` contains pairs of a config key and a method that the key names; ``one_leaves`` is
    True if a request removes a single client.
    """
    hidden = HIDDEN if one_leaves else HIDDEN[:1]
    legal = ", ".join(each for each in plan.methods() if plan.reads[each] not in hidden)
    for field, method in chosen:
        reads = plan.reads[method]
        if reads not in hidden:
            continue
        if reads == "each update":
            need = "needs the update of each client, but the server receives only their sum"
        elif reads == REPEATED_SUMS:
            need = (
                "reveals, together with the sums of training, the leaving client's update, but "
                "this update must stay secret"
            )
        else:
            need = (
                "needs the update of the one leaving client, but the server receives only sums of "
                "updates"
            )
        yield (
            f"{field}: {method!r} {need} (with aggregation.kind = {kind!r}); legal methods: {legal}"
        )


def settings_problems(kind: str, plan: ClientUnlearning) -> Iterator[str]:
    """Yield an error message for each method whose settings cannot work with sums of updates."""
    for place, table in plan.tables():
        problem = table.problem_with_sums(kind) if isinstance(table, ClientMethodSettings) else None
        if problem is not None:
            yield f"{place}{problem}"
