"""``vfl tune``: chooses settings of the training by trainings on this machine."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties import __version__
from parties.cli.console import Console
from parties.cli.options import (
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    RayOption,
    SetOption,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from configs.agreement import VerticalAgreement
    from parties.common.progress import Event, ProgressListener
    from parties.experiments.tune import TrainAll, TriedSettings
    from parties.session.simulation import SimulationPlan

TryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--try",
        metavar="KEY=LIST",
        help="Try all values of a setting, such as 'training.learning_rate=[0.001, 0.003]' or "
        "'top.hidden=[[16], [32]]'. Repeatable: all combinations are tried. Without it, a third "
        "of the learning rate, the rate itself and its triple are tried. Keys of training, top and "
        "parties may be tried, except training.monitor, training.class_weights and "
        "training.sample_weights, which change what is measured.",
    ),
]


def tune_command(  # noqa: PLR0913  one parameter per option
    *,
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", help="The agreement's TOML file, or the name of a shipped run."
        ),
    ],
    tried: TryOption = None,
    data: DataOption = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Store the trainings here; finished ones are not repeated, so name another folder "
            "after changes of the data."
        ),
    ] = Path("runs/tune"),
    changes: SetOption = None,
    ray: RayOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Choose settings of the training by the loss on validation rows.

    All parties train on this machine, in this process, or on a Ray cluster
    with --ray, once for every combination of settings, with the same training
    and validation rows. The combination with the lowest validation loss wins,
    or with the highest AUC
    if training.monitor is auc; no figure of test rows is shown. Write the
    printed settings into the agreement.

    Exit codes: as those of vfl simulate.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    console.run(lambda: _tune(config, tried or [], data, out, changes or [], ray, console))


def _tune(
    config: Path,
    tried: list[str],
    data: Path | None,
    out: Path,
    changes: list[str],
    ray: str | None,
    console: Console,
) -> None:
    from parties.cli.modes import read_runnable
    from parties.cli.party_run import plan_simulation
    from parties.experiments.tune import combinations, search

    plan = plan_simulation(config, tuple(changes), out, data)
    read = read_runnable(plan.config, changes)
    agreement = _vertical(read.agreement)
    choices = combinations(agreement, tried)
    for each in choices:  # a wrong value is refused before anything is trained
        read_runnable(plan.config, [*changes, *each])
    roles: dict[str, str] = {name: each.role for name, each in agreement.parties.items()}
    parties = [read.settings(name) for name in agreement.parties]
    settings = [each.model_dump_json() for each in parties]
    known = (__version__, agreement.model_dump_json(), settings, plan.config.resolve(), data)
    with console.progress(roles) as listener, _trainer(plan, parties, ray, listener) as train:
        trials = []
        for number, trial in enumerate(search(choices, out, repr(known), train), 1):
            trials.append(trial)
            listener({"event": "note", "party": "vfl", "text": _line(number, len(choices), trial)})
    _show(trials, agreement, console)


@contextmanager
def _trainer(
    plan: "SimulationPlan", parties: "Sequence[Any]", ray: str | None, listener: "ProgressListener"
) -> "Iterator[TrainAll]":
    """Yield what trains: this process, or a Ray cluster; ``parties`` are the party settings."""
    from parties.experiments.tune import train_in_turn
    from parties.vertical.in_process import read_holdings, run_in_process

    def without_notes(event: "Event") -> None:
        if event["event"] != "note":  # such as that no model is kept
            listener(event)

    def train(changed: "Sequence[str]", folder: Path) -> dict[str, Any]:
        one = replace(plan, changes=(*plan.changes, *changed), out=folder)
        return run_in_process(one, without_notes)

    if ray is None:
        yield partial(train_in_turn, train)
        return
    from configs.errors import ConfigError
    from parties.experiments.on_ray.tasks import RayTasks
    from parties.experiments.on_ray.trainings import ShippedTraining, train_on_ray

    if any(each.statistics for each in parties):
        raise ConfigError(
            "--ray sends data to other machines, but not the files of the key 'statistics'",
            "remove --ray, or the key from the party settings",
        )
    with RayTasks(ray, max(each.threads for each in parties)) as tasks:
        with TemporaryDirectory() as folder:  # no earlier run of a party changes its data
            holdings = read_holdings(replace(plan, out=Path(folder)), without_notes)
        text = plan.config.read_text()
        shipped = ShippedTraining(plan, text, holdings, run_in_process)
        yield partial(train_on_ray, tasks, shipped)


def _vertical(agreement: Any) -> "VerticalAgreement":
    """Refuse the agreement of another mode."""
    from configs.agreement import VerticalAgreement
    from configs.errors import ConfigError

    if not isinstance(agreement, VerticalAgreement):
        raise ConfigError(
            f"vfl tune searches the settings of the vertical mode, but this is a {agreement.mode} "
            "run",
            "compare runs of vfl simulate with --set by hand",
        )
    return agreement


def _line(number: int, count: int, trial: "TriedSettings") -> str:
    found = trial.failure or f"{trial.value:.4f}"
    return f"{number} of {count}: {', '.join(trial.changes)}: {found}"


def _show(
    trials: "Sequence[TriedSettings]", agreement: "VerticalAgreement", console: Console
) -> None:
    """Print all trials, best first, and the settings of the best one."""
    from parties.common.errors import PolicyError
    from parties.experiments.tune import watches_auc

    what = "1 - AUC" if watches_auc(agreement) else "loss"
    ranked = sorted(trials, key=lambda each: (each.value, each.changes))
    if ranked[0].failure:
        raise PolicyError(
            f"every training failed, the first one because {trials[0].failure}",
            "try other values",
        )
    console.print(f"{what} on validation rows:", event="head", figure=what)
    for each in ranked:
        found = "failed" if each.failure else f"{each.value:.4f}"
        text = f"  {found}  {', '.join(each.changes)}"
        console.print(text, event="trial", changes=each.changes, value=each.value)
    best = ranked[0]
    console.print("best settings, for the agreement:", event="best", changes=best.changes)
    for change in best.changes:
        console.print(f"  {change}", event="setting", setting=change)
