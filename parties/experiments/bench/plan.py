"""From experiments to runs: each has a config, its changes, a seed, and a digest that names it."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from configs.agreement import Agreement, Request
from configs.evaluation import Backdoor
from configs.experiments import Experiment, Experiments, inline
from configs.federated import Federated
from configs.federated_file import FederatedConfig
from configs.schema import Config, canonical, read_config
from parties.report import VERSION

QUICK = "quick"  # the variant that makes every run short


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of the list is wanted.

    Attributes:
        tables: those to be made; none: all.
        only: the experiments to be run, by name; none: all.
        seeds: at most so many of each experiment.
        gpu: whether experiments for a GPU are made as well.
        quick: one seed each and short trainings, which say nothing, but show that all runs.
    """

    tables: Collection[str] = ()
    only: Collection[str] = ()
    seeds: int | None = None
    gpu: bool = False
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One config with one seed."""

    experiment: str
    variant: str
    poisoned: bool  # D_u bears a backdoor: a run of its own
    seed: int
    config: Path
    changes: tuple[str, ...]
    processes: bool
    gpu: bool
    agreement: Agreement | Federated
    digest: str  # of agreement, seats and version: runs that are the same bear the same

    @property
    def title(self) -> str:
        """The run's name for people."""
        poisoned = ", poisoned" if self.poisoned else ""
        variant = f": {self.variant}" if self.variant else ""
        return f"{self.experiment}{variant}{poisoned}, seed {self.seed}"


def runs(listed: Experiments, folder: Path, scope: Scope) -> list[Run]:
    """All runs of the experiments that feed a wanted table; configs are read from ``folder``.

    Raises:
        ConfigError: a config does not take its changes.
    """
    chosen = [
        each
        for each in listed.experiment
        if (not scope.tables or set(each.tables) & set(scope.tables))
        and (not scope.only or each.name in scope.only)
        and (scope.gpu or not each.gpu)
    ]
    return [run for each in chosen for run in _of(each, listed, folder, scope)]


def _of(each: Experiment, listed: Experiments, folder: Path, scope: Scope) -> Iterator[Run]:
    seeds = 1 if scope.quick else min(each.seeds, scope.seeds or each.seeds)
    path = folder / each.config
    request = _request(each, path)
    for variant in each.variants:
        changes = listed.changes(each, variant)
        if scope.quick and QUICK in listed.variants:
            changes = (*changes, *listed.variants[QUICK].get("any", ()))
        for poisoned in (False, True) if each.backdoor else (False,):
            own = _forget(request, each.backdoor if poisoned else None)
            for seed in range(min(seeds, each.poisoned) if poisoned else seeds):
                named = (*changes, *own, f"seed={seed}")
                config = read_config(path, named)
                yield Run(
                    experiment=each.name,
                    variant=variant,
                    poisoned=poisoned,
                    seed=seed,
                    config=path,
                    changes=named,
                    processes=each.processes,
                    gpu=each.gpu,
                    agreement=config.agreement,
                    digest=digest(config, processes=each.processes),
                )


def _request(each: Experiment, path: Path) -> Request | None:
    """The rows to forget; None for those of the config."""
    if each.first is None:
        return each.request
    classes = read_config(path).agreement.labels.classes[1 : 1 + each.first.classes]
    return Request(name="request", classes=classes, fraction=each.first.fraction)


def _forget(request: Request | None, backdoor: Backdoor | None) -> tuple[str, ...]:
    """The change by which a run forgets these rows, poisoned or not."""
    if request is None:
        return ()
    table = request.model_dump(mode="json", exclude_unset=True)
    if backdoor:
        table["backdoor"] = backdoor.model_dump(mode="json", exclude_unset=True)
    return (f"unlearn={inline([table])}",)


def digest(config: Config | FederatedConfig, *, processes: bool) -> str:
    """What names a run's folder: everything that its figures depend on, as far as it is declared.

    The program is known by its version and that of its metrics; the digest of its sources stands in
    the run's record, and a table made of runs of several sources says so.
    """
    seats = {name: seat.model_dump(mode="json") for name, seat in sorted(config.inline.items())}
    parts = [canonical(config.agreement), json.dumps(seats, sort_keys=True)]
    parts += [version("vfl"), str(VERSION), "processes" if processes else "threads"]
    return sha256("\n".join(parts).encode()).hexdigest()[:24]


def sources(root: Path = Path(__file__).parents[3]) -> str:
    """A digest of the program's own files, which lie in ``root``."""
    found = sha256()
    for folder in ("configs", "models", "parties", "protocol", "psi", "unlearning"):
        for path in sorted((root / folder).rglob("*.py")):
            place = path.relative_to(root)
            if place.parts[:3] != ("parties", "experiments", "bench"):  # what shows figures does not change them
                found.update(f"{place} ".encode() + path.read_bytes())
    return found.hexdigest()[:12]
