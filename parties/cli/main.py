"""Command line: ``vfl-party`` runs one party, ``vfl`` has all other commands.

Heavy libraries are imported inside the commands, so that ``--help`` is fast.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.cli.arguments import CheckedCommand, CheckedGroup
from parties.cli.commands.bench import bench_app
from parties.cli.commands.certs import certs_app
from parties.cli.commands.demo import demo_command
from parties.cli.commands.doctor import doctor_command
from parties.cli.commands.init import init_command
from parties.cli.commands.keys import keys_app
from parties.cli.commands.language import language_app
from parties.cli.commands.leave import leave_command
from parties.cli.commands.models import models_app
from parties.cli.commands.pair import pair_command
from parties.cli.commands.predict import predict_command
from parties.cli.commands.replay import compare_command, replay_command
from parties.cli.commands.report import report_command
from parties.cli.commands.runs import runs_command
from parties.cli.commands.schema import schema_command
from parties.cli.commands.serve import serve_command
from parties.cli.commands.tune import tune_command
from parties.cli.commands.unlearn.app import unlearn_app
from parties.cli.console import Console, prepare_output
from parties.cli.options import (
    BeginOption,
    CertificatesOption,
    ConfigOption,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    FromOption,
    HttpOption,
    HubOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    RoleOption,
    ServeOption,
    SetOption,
    SupervisedOption,
    TrackOption,
    VersionOption,
)
from parties.cli.party_run import PartyRun, plan_simulation, run_party, simulate_parties
from parties.session.setup import Begin
from unlearning.receipts.__main__ import verify_command

if TYPE_CHECKING:
    from parties.common.progress import ProgressListener
    from parties.session.simulation import SimulationPlan

app = typer.Typer(
    name="vfl",
    help="Train one model with several organisations, unlearn rows, and measure the result.\n\n"
    "`vfl simulate` runs all parties on this machine, for a trial. In production each organisation "
    "runs `vfl init`, `vfl pair`, `vfl doctor`, and then `vfl-party`.",
    cls=CheckedGroup,
    pretty_exceptions_enable=False,
)
party_app = typer.Typer(pretty_exceptions_enable=False)
simulate_app = typer.Typer(pretty_exceptions_enable=False)


@app.callback()
def _options_of_all_commands(*, version: VersionOption = False) -> None:
    del version  # its callback has printed the version


@party_app.command(
    "vfl-party",
    cls=CheckedCommand,
    epilog="Example: vfl-party --role passive --config people.toml --party shop --hub bank:7700",
)
def party_command(  # noqa: PLR0913  a command has the options that it has
    *,
    role: RoleOption,
    config: ConfigOption,
    party: PartyOption,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    begin: BeginOption = Begin.AUTO,
    continues: FromOption = None,
    changes: SetOption = None,
    track: TrackOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
    serve: ServeOption = False,
    http: HttpOption = None,
    master_key: MasterKeyOption,
    supervised: SupervisedOption = False,
    version: VersionOption = False,
) -> None:
    """Run one party of a federation on this machine.

    The active party has the labels, listens for connections, controls the run
    and writes the report; passive parties connect to the active party. In the
    horizontal and LLM modes, the server listens and clients connect. Start
    the parties in any order. Each party needs the agreement, its party
    settings (in the agreement's file, or in PARTY.party.toml in the same
    folder) and its certificates.

    After a crash, run the same command to resume from the last checkpoint
    that all parties have. SIGTERM stops the run with exit code 0.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage or
    limit, 8 policy, 9 integrity.
    """
    del version
    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    where = (hub, data, certificates, out, changes or [], begin, supervised, serve)
    run = PartyRun(
        role, config, party, *where, http=http, master_key=master_key, continues=continues,
        track=track or [],
    )  # fmt: skip
    console.run(lambda: run_party(run, console))


@simulate_app.command("vfl-sim", cls=CheckedCommand)
def simulate_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: Annotated[
        Path,
        typer.Argument(
            readable=False,
            help="TOML file with the agreement and the settings of all parties, or the name of a "
            "shipped run, which vfl runs lists.",
        ),
    ],
    data: DataOption = None,
    out: OutOption = Path("runs"),
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process", help="Run all parties as threads of one process, for debugging."
        ),
    ] = False,
    begin: BeginOption = Begin.AUTO,
    continues: FromOption = None,
    changes: SetOption = None,
    track: TrackOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
    version: VersionOption = False,
) -> None:
    """Run all parties of an agreement on this machine, for a trial.

    Each party is a process. The processes connect over the loopback interface
    with mutual TLS, as parties on different machines do. The command makes
    temporary certificates for the run.
    The parties wait for each other without time limits, however busy the
    machine is.
    After a crash, run the same command to resume from the last checkpoint.
    """
    del version
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    plan = (config, tuple(changes or ()), out, data, begin, continues)
    run = _in_process if in_process else simulate_parties
    console.run(lambda: _simulate(plan, run, track or [], console))


def _simulate(
    options: tuple[Path, tuple[str, ...], Path, Path | None, Begin, str | None],
    run: Callable[["SimulationPlan", "ProgressListener"], dict[str, Any]],
    track: list[str],
    console: Console,
) -> None:
    from parties.cli.modes import read_runnable
    from parties.experiments.tracking import tracking

    path, changes, out, data, begin, continues = options
    plan = plan_simulation(path, changes, out, data, begin=begin, continues=continues)
    config = read_runnable(plan.config, plan.changes)
    for notice in config.notices:
        console.warn(notice)
    agreement = config.agreement
    folder = plan.out / agreement.federation
    roles = {name: each.role for name, each in agreement.parties.items()}
    with console.progress(roles) as listener, tracking(track, agreement.federation, listener) as to:
        metrics = run(plan, to.receive)
        to.finish(metrics, folder)
    console.show_result(metrics, folder)


def _in_process(plan: "SimulationPlan", listener: "ProgressListener") -> dict[str, Any]:
    from parties.vertical.in_process import run_in_process

    return run_in_process(plan, listener)


app.command("init", epilog="Example: vfl init --role active customers.csv --label bought")(
    init_command
)
app.command("schema", epilog="Example: vfl schema --out .")(schema_command)
app.command("pair", epilog="Example: vfl pair people.toml --party bank")(pair_command)
app.command("doctor", epilog="Example: vfl doctor people.toml --party bank --data-full")(
    doctor_command
)
app.command("simulate", epilog="Example: vfl simulate digits")(simulate_command)
app.command(
    "predict", epilog="Example: vfl predict people.toml --party bank --out predictions.csv"
)(predict_command)
app.command("serve", epilog="Example: vfl serve people.toml --party bank --http 127.0.0.1:8080")(
    serve_command
)
app.command("verify", epilog="Example: vfl verify receipt.json --keys trust.json")(verify_command)
_REQUEST = "01K8ZQ4T5V6W7X8Y9Z0A1B2C3D"
app.command("replay", epilog=f"Example: vfl replay people.toml {_REQUEST} --party bank")(
    replay_command
)
app.command("compare", epilog=f"Example: vfl compare people.toml {_REQUEST} --party bank")(
    compare_command
)
app.command(
    "leave", epilog="Example: vfl leave people.toml --party shop --statement shop.jsonl --yes"
)(leave_command)
app.command("tune", epilog="Example: vfl tune people.toml --try 'training.batch=[32, 128]'")(
    tune_command
)
app.command("demo", epilog="Example: vfl demo")(demo_command)
app.command("runs", epilog="Example: vfl runs")(runs_command)
app.command("report", epilog="Examples: vfl report runs/people; vfl report runs/a runs/b")(
    report_command
)
app.add_typer(unlearn_app, name="unlearn")
app.add_typer(models_app, name="models")
app.add_typer(certs_app, name="certs")
app.add_typer(keys_app, name="keys")
app.add_typer(language_app, name="language")
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Entry point of ``vfl``."""
    prepare_output()
    app()


def party_main() -> None:
    """Entry point of ``vfl-party``."""
    prepare_output()
    party_app()


def simulate_main() -> None:
    """Entry point of ``vfl-sim``."""
    prepare_output()
    simulate_app()
