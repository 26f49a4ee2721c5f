"""The command line: ``vfl-party`` runs one party, ``vfl`` does everything else.

Heavy libraries are imported inside the commands, so that ``--help`` answers at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.cli.arguments import Command, Commands, check_hub
from parties.cli.commands.bench import bench_app
from parties.cli.commands.certs import certs_app
from parties.cli.commands.doctor import doctor
from parties.cli.commands.language import language_app
from parties.cli.commands.predict import predict
from parties.cli.commands.report import report
from parties.cli.console import Teller, prepare_output
from parties.cli.options import (
    Begin,
    BeginOption,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    OutOption,
    Role,
    SetOption,
)

if TYPE_CHECKING:
    from configs.federated_file import FederatedConfig
    from configs.schema import Config
    from parties.common.progress import Listener
    from parties.session.setup import Place
    from parties.session.simulation import Plan

app = typer.Typer(
    name="vfl",
    help="Vertical federated learning that can forget, and shows it.",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("predict")(predict)
party_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
simulate_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.add_typer(certs_app, name="certs")
app.add_typer(bench_app, name="bench")
app.add_typer(language_app, name="language")
app.command("doctor")(doctor)
app.command("report")(report)


@dataclass(frozen=True, slots=True)
class _Run:
    """The options of ``vfl-party``."""

    role: Role
    config: Path
    seat: str
    hub: str | None
    data: Path | None
    certificates: Path | None
    out: Path
    changes: list[str]
    begin: Begin


@party_app.command(
    cls=Command,
    epilog="Example: vfl-party --role passive --config income.toml --seat employer --hub bank:7700",
)
def party(  # noqa: PLR0913  a command has the options that it has
    *,
    role: Annotated[Role, typer.Option(help="The role that the agreement gives the seat.")],
    config: Annotated[
        Path, typer.Option(readable=False, help="The agreement: one TOML file that all share.")
    ],
    seat: Annotated[str, typer.Option(help="Our name in the agreement.")],
    hub: Annotated[
        str | None, typer.Option(help="host:port to dial, or to listen on if we are the hub.")
    ] = None,
    data: DataOption = None,
    certificates: Annotated[
        Path | None, typer.Option(readable=False, help="Folder with ca.pem, SEAT.pem and SEAT.key.")
    ] = None,
    out: OutOption = Path("runs"),
    begin: BeginOption = Begin.AUTO,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Run one party of a federation on this machine.

    The active party holds the labels, listens, leads and writes the report; passive parties dial
    it. Each needs the shared agreement, its own seat (in the same file, or SEAT.seat.toml beside
    it) and its certificates. After a crash the same command goes on from the last checkpoint that
    all parties hold; SIGTERM stops cleanly, with exit code 0.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage or limit, 8 policy,
    9 integrity.
    """
    told = Teller(seat, json_lines=output is Format.JSON, debug=debug)
    run = _Run(role, config, seat, hub, data, certificates, out, changes or [], begin)
    told.guard(lambda: _run_party(run, told))


def _run_party(run: _Run, told: Teller) -> None:
    from configs.any_file import read_any
    from configs.errors import ConfigError
    from parties.session.identity import identify
    from parties.session.run_folder import alone, check_apart

    if run.hub is not None:
        check_hub(run.hub, dials=run.role in (Role.PASSIVE, Role.CLIENT))
    config = read_any(run.config, run.changes)
    seat = config.seat(run.seat)
    for notice in config.notices:
        told.warn(notice)
    if run.seat not in config.agreement.parties:
        raise ConfigError(f"{run.seat} is simulated in {run.config}", "vfl simulate runs it")
    agreed = config.agreement.parties[run.seat].role
    if agreed != run.role.value:
        raise ConfigError(f"{run.seat} is {agreed} in {run.config}", f"--role {agreed}")
    beside = run.config.parent / seat.folder if seat.folder else None
    check_apart(run.out, run.data or beside)
    identify(config, run.seat, run.certificates, datetime.now(UTC))  # before torch is loaded

    from parties.session.setup import Place

    folder = run.out / config.agreement.federation
    with alone(folder / run.seat), told.view({run.seat: agreed}) as show:
        place = Place(run.out, run.data, run.certificates, run.begin)
        metrics = _play(config, run.seat, place, run.hub, show)
    if metrics is not None:
        told.result(metrics, folder)


def _play(
    config: "Config | FederatedConfig",
    seat: str,
    place: "Place",
    hub: str | None,
    show: "Listener",
) -> dict[str, Any] | None:
    """Run one party of either mode; each is imported where it is played."""
    from configs.federated_file import FederatedConfig

    if isinstance(config, FederatedConfig):
        from parties.horizontal import run_party as horizontal

        return horizontal.play(config, seat, place, hub, show)
    from parties.vertical import run_party as roles

    return roles.play(config, seat, place, hub, show)


@simulate_app.command(cls=Command)
@app.command("simulate")
def simulate(  # noqa: PLR0913  a command has the options that it has
    *,
    config: Annotated[
        Path, typer.Argument(readable=False, help="A config with its seats, as in configs/.")
    ],
    data: DataOption = None,
    out: OutOption = Path("runs"),
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Threads and memory lines; for debugging.")
    ] = False,
    begin: BeginOption = Begin.AUTO,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Run every party of a config on this machine, each as a process of its own.

    They talk over loopback with mutual TLS, as they would between machines; certificates are made
    for the run and thrown away.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)
    plan = (config, tuple(changes or ()), out, data, begin)
    run = _in_process if in_process else _processes
    told.guard(lambda: _simulate(plan, run, told))


def _simulate(
    options: tuple[Path, tuple[str, ...], Path, Path | None, Begin],
    run: Callable[["Plan", "Listener"], dict[str, Any]],
    told: Teller,
) -> None:
    from configs.any_file import read_any
    from parties.session.run_folder import check_apart
    from parties.session.simulation import Plan

    plan = Plan(*options)
    config = read_any(plan.config, plan.changes)
    for notice in config.notices:
        told.warn(notice)
    check_apart(plan.out, plan.data)
    agreement = config.agreement
    with told.view({name: each.role for name, each in agreement.parties.items()}) as show:
        metrics = run(plan, show)
    told.result(metrics, plan.out / agreement.federation)


def _processes(plan: "Plan", listener: "Listener") -> dict[str, Any]:
    from configs.any_file import read_any
    from configs.federated_file import FederatedConfig

    config = read_any(plan.config, plan.changes)
    if isinstance(config, FederatedConfig) and config.agreement.clients:
        from parties.horizontal.simulation.simulate import simulate as pooled

        return pooled(plan, listener)
    from parties.session.simulation import processes

    return processes(plan, listener)


def _in_process(plan: "Plan", listener: "Listener") -> dict[str, Any]:
    from parties.vertical.in_process import in_process

    return in_process(plan, listener)


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
