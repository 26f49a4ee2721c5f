"""The three benchmarks of ``vfl bench``: their runs and their result pages."""

from collections.abc import Iterator
from pathlib import Path

from configs.agreement import RowRequest
from configs.config_file import FederatedConfig, read_any, read_config
from configs.evaluation import BackdoorSettings
from configs.experiments import (
    Changes,
    ExperimentEntry,
    ExperimentList,
    inline_toml,
    read_experiments,
)
from parties.experiments.bench.blocks import read_fedora_blocks
from parties.experiments.bench.extract import extract_vertical
from parties.experiments.bench.horizontal.blocks import read_horizontal_blocks
from parties.experiments.bench.horizontal.checks import horizontal_checks
from parties.experiments.bench.horizontal.extract import extract_horizontal
from parties.experiments.bench.language.blocks import read_language_blocks
from parties.experiments.bench.language.checks import language_checks
from parties.experiments.bench.language.extract import extract_language
from parties.experiments.bench.plan import (
    QUICK,
    Extract,
    PlannedRun,
    RunOf,
    Scope,
    plan_federated_runs,
    read_federated_experiments,
)
from parties.experiments.bench.record import Pages, fedora_pages
from parties.experiments.bench.run import Bench
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.language.registry import SCHEMA as LANGUAGE
from parties.vertical.methods.registry import SCHEMA as VERTICAL

HORIZONTAL_LEAD = (
    "ASR: the fraction of the leaving client's rows with the trigger that the model assigns to the "
    "trigger's class. R-Acc: unweighted mean of the remaining clients' test accuracies. ¹: after "
    "the unlearning rounds; ²: after the recovery rounds. FedOSD's paper trains 2,000 rounds on "
    "all rows; the runs of FedOSD on this page train 300 rounds (MNIST: 100) on a fifth of the "
    "rows. The runs of FU-PGA train 10 rounds on three tenths of the rows. The runs of Mimir "
    'train 12 rounds (Fashion-MNIST: 40) on a sixth of the rows. "Original" is the trained model '
    "before unlearning; a Retrain model is trained for as many rounds as this model. Mimir: D_r "
    "are the training rows of a remaining client C_r, and D_f are the training rows of the leaving "
    "client C_f. The accuracies on D_r and D_f are those of the whole model of C_r, personal "
    "parameters included. "
    "If C_r and C_f hold different classes, the original model of C_r has not learned D_f either. "
    "A low accuracy on D_f after unlearning then does not show that anything was forgotten."
)

LANGUAGE_LEAD = (
    "MU: model utility. FTR: truth ratio of the forgotten questions, as in the paper. KS: "
    "two-sample Kolmogorov–Smirnov distance between a model's truth ratios and Retrain's, from 0 "
    "to 1. Finetune is the trained model before unlearning. The paper does not "
    "compare truth ratios with Retrain's, and it uses neither the method RMU nor the primal-dual "
    "constraint. A high FTR alone is not a success, because the target is the FTR of Retrain "
    "together with a high utility."
)


def fedora_bench(listed: Path) -> Bench:
    """Return the benchmark of FedORA; ``listed`` is the path of its experiments file."""
    experiments = read_experiments(listed)
    return Bench(
        name="fedora",
        runs=lambda scope: plan_vertical_runs(experiments, listed.parent, scope),
        extract=extract_vertical,
        pages=fedora_pages(read_fedora_blocks()),
        tables=sorted({table for entry in experiments.experiment for table in entry.tables}),
        experiments=[entry.name for entry in experiments.experiment],
    )


def horizontal_bench(listed: Path) -> Bench:
    """Return the benchmark of client unlearning; ``listed`` is the path of its experiments file."""
    blocks, tables = read_horizontal_blocks(), "client unlearning's tables"
    pages = Pages.of("horizontal", blocks, tables, HORIZONTAL_LEAD, horizontal_checks)
    return _federated_bench("horizontal", listed, extract_horizontal, pages)


def language_bench(listed: Path) -> Bench:
    """Return the benchmark of language models; ``listed`` is the path of its experiments file."""
    blocks, tables = read_language_blocks(), "language models' tables"
    pages = Pages.of("llm", blocks, tables, LANGUAGE_LEAD, language_checks)
    return _federated_bench("language", listed, extract_language, pages)


def _federated_bench(name: str, listed: Path, extract: Extract, pages: Pages) -> Bench:
    experiments = read_federated_experiments(listed)
    return Bench(
        name=name,
        runs=lambda scope: plan_federated_runs(experiments, listed.parent, scope, _read),
        extract=extract,
        pages=pages,
        tables=experiments.tables,
        experiments=[entry.name for entry in experiments.experiment],
    )


def _read(path: Path, changes: Changes) -> FederatedConfig:
    """The config of a run with a server."""
    config: FederatedConfig = read_any(path, (HORIZONTAL, LANGUAGE), changes)
    return config


BENCHES = {"fedora": fedora_bench, "horizontal": horizontal_bench, "language": language_bench}


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
                config = read_config(path, VERTICAL, named)
                of = RunOf(each, variant, seed, path, named)
                yield of.planned(config, poisoned=poisoned, processes=each.processes)


def _request(each: ExperimentEntry, path: Path) -> RowRequest | None:
    """Return the rows to forget; None for the request of the config itself."""
    if each.first is None:
        return each.request
    classes = read_config(path, VERTICAL).agreement.labels.classes[1 : 1 + each.first.classes]
    return RowRequest(name="request", classes=classes, fraction=each.first.fraction)


def _forget(request: RowRequest | None, backdoor: BackdoorSettings | None) -> tuple[str, ...]:
    """Return the config change that sets the request, with the backdoor if one is given."""
    if request is None:
        return ()
    table = request.model_dump(mode="json", exclude_unset=True)
    if backdoor:
        table["backdoor"] = backdoor.model_dump(mode="json", exclude_unset=True)
    return (f"unlearn={inline_toml([table])}",)
