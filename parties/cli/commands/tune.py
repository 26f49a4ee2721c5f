"""``vfl tune``: chooses settings of the training by trainings on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties import __version__
from parties.cli.console import Console
from parties.cli.options import (
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    SetOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from configs.agreement import VerticalAgreement
    from parties.common.progress import Event
    from parties.experiments.tune import TriedSettings

TryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--try",
        metavar="KEY=LIST",
        help="Try all values of a setting, such as 'training.learning_rate=[0.001, 0.003]' or "
        "'top.hidden=[[16], [32]]'. Repeatable: all combinations are tried. Without it, a third "
        "of the learning rate, the rate itself and its triple are tried.",
    ),
]


def tune_command(
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
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Choose settings of the training by the loss on validation rows.

    All parties train on this machine, in this process, once for every
    combination of settings, with the same training and validation rows. The
    combination with the lowest validation loss wins, or with the highest AUC
    if training.monitor is auc; no figure of test rows is shown. Write the
    printed settings into the agreement.

    Exit codes: as those of vfl simulate.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    console.run(lambda: _tune(config, tried or [], data, out, changes or [], console))


def _tune(
    config: Path,
    tried: list[str],
    data: Path | None,
    out: Path,
    changes: list[str],
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
    with console.progress(roles) as listener:

        def without_notes(event: "Event") -> None:
            if event["event"] != "note":  # such as that no model is kept
                listener(event)

        def train(changed: "Sequence[str]", folder: Path) -> dict[str, Any]:
            from parties.vertical.in_process import run_in_process

            one = plan_simulation(config, (*changes, *changed), folder, data)
            return run_in_process(one, without_notes)

        settings = [read.settings(name).model_dump_json() for name in agreement.parties]
        known = (__version__, agreement.model_dump_json(), settings, plan.config.resolve(), data)
        trials = []
        for number, trial in enumerate(search(choices, out, repr(known), train), 1):
            trials.append(trial)
            listener({"event": "note", "party": "vfl", "text": _line(number, len(choices), trial)})
    _show(trials, agreement, console)


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

    watched = agreement.training.monitor
    what = "1 - AUC" if watched == "auc" else "loss"
    ranked = sorted(trials, key=lambda each: each.value)
    if ranked[0].failure:
        raise PolicyError(
            f"every training failed, the first one because {trials[0].failure}",
            "try other values",
        )
    console.print(f"{what} on validation rows:", event="head")
    for each in ranked:
        found = "failed" if each.failure else f"{each.value:.4f}"
        text = f"  {found}  {', '.join(each.changes)}"
        console.print(text, event="trial", changes=each.changes, value=each.value)
    best = ranked[0]
    console.print("best settings, for the agreement:", event="best", changes=best.changes)
    for change in best.changes:
        console.print(f"  {change}", event="setting", setting=change)
