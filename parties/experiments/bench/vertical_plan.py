"""Planned runs of the experiments of the vertical mode."""

from collections.abc import Iterator
from pathlib import Path

from configs.agreement import RowRequest
from configs.evaluation import BackdoorSettings
from configs.experiments import ExperimentEntry, ExperimentList, inline_toml
from configs.schema import read_config
from parties.experiments.bench.plan import QUICK, PlannedRun, RunOf, Scope
from parties.vertical.methods.registry import AGREEMENT


def plan_vertical_runs(listed: ExperimentList, folder: Path, scope: Scope) -> list[PlannedRun]:
    """Return all runs of the experiments in ``scope``; configs are read from ``folder``.

    Raises:
        ConfigError: the changes to a config are invalid.
    """
    chosen = filter(scope.includes, listed.experiment)
    return [run for each in chosen for run in _vertical_runs(each, listed, folder, scope)]


def _vertical_runs(
    each: ExperimentEntry, listed: ExperimentList, folder: Path, scope: Scope
) -> Iterator[PlannedRun]:
    seeds, path = scope.seeds_of(each), folder / each.config
    request = _request(each, path)
    for variant in each.variants:
        changes = listed.changes(each, variant)
        if scope.quick and QUICK in listed.variants:
            changes = (*changes, *listed.variants[QUICK].get("any", ()))
        for poisoned in (False, True) if each.backdoor else (False,):
            own = _forget(request, each.backdoor if poisoned else None)
            for seed in range(min(seeds, each.poisoned) if poisoned else seeds):
                named = (*changes, *own, f"seed={seed}")
                config = read_config(path, AGREEMENT, named)
                of = RunOf(each, variant, seed, path, named)
                yield of.planned(config, poisoned=poisoned, processes=each.processes)


def _request(each: ExperimentEntry, path: Path) -> RowRequest | None:
    """Return the rows to forget; None for the request of the config itself."""
    if each.first is None:
        return each.request
    classes = read_config(path, AGREEMENT).agreement.labels.classes[1 : 1 + each.first.classes]
    return RowRequest(name="request", classes=classes, fraction=each.first.fraction)


def _forget(request: RowRequest | None, backdoor: BackdoorSettings | None) -> tuple[str, ...]:
    """Return the config change that sets the request, with the backdoor if one is given."""
    if request is None:
        return ()
    table = request.model_dump(mode="json", exclude_unset=True)
    if backdoor:
        table["backdoor"] = backdoor.model_dump(mode="json", exclude_unset=True)
    return (f"unlearn={inline_toml([table])}",)
