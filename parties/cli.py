"""The command line: ``vfl-party`` runs one party, ``vfl`` does everything else.

Heavy libraries are imported inside the commands, so that ``--help`` answers at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.options import (
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    OutOption,
    Role,
    SetOption,
)
from parties.teller import Teller

if TYPE_CHECKING:
    from parties.simulate import Plan
    from parties.watch import Listener

app = typer.Typer(
    name="vfl",
    help="Vertical federated learning that can forget, and shows it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
party_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
simulate_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


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


@party_app.command(
    epilog="Example: vfl-party --role passive --config income.toml --seat employer --hub bank:7700"
)
def party(  # noqa: PLR0913  a command has the options that it has
    *,
    role: Annotated[Role, typer.Option(help="The role that the agreement gives the seat.")],
    config: Annotated[Path, typer.Option(help="The agreement: one TOML file that all share.")],
    seat: Annotated[str, typer.Option(help="Our name in the agreement.")],
    hub: Annotated[
        str | None, typer.Option(help="host:port to dial, or to listen on if we are the hub.")
    ] = None,
    data: DataOption = None,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with ca.pem, SEAT.pem and SEAT.key.")
    ] = None,
    out: OutOption = Path("runs"),
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Run one party of a federation on this machine.

    The active party holds the labels, listens, leads and writes the report; passive parties dial
    it. Each needs the shared agreement, its own seat (in the same file, or SEAT.seat.toml beside
    it) and its certificates.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage or limit, 8 policy,
    9 integrity.
    """
    told = Teller(seat, json_lines=output is Format.JSON, debug=debug)
    run = _Run(role, config, seat, hub, data, certificates, out, changes or [])
    told.guard(lambda: _run_party(run, told))


def _run_party(run: _Run, told: Teller) -> None:
    from configs.errors import ConfigError
    from configs.schema import read_config

    if run.role in (Role.SERVER, Role.CLIENT):
        raise ConfigError(
            f"role {run.role.value!r} belongs to the horizontal mode, which is not there yet",
            "the roles of the vertical mode are active and passive",
        )
    config = read_config(run.config, run.changes)
    config.seat(run.seat)
    agreed = config.agreement.parties[run.seat].role
    if agreed != run.role.value:
        raise ConfigError(f"{run.seat} is {agreed} in {run.config}", f"--role {agreed}")

    from parties.roles import play
    from parties.seating import Place

    with told.view({run.seat: agreed}) as show:
        place = Place(run.out, run.data, run.certificates)
        metrics = play(config, run.seat, place, run.hub, show)
    if metrics is not None:
        told.result(metrics, run.out / config.agreement.federation)


@simulate_app.command()
@app.command("simulate")
def simulate(
    *,
    config: Annotated[Path, typer.Argument(help="A config with [seats.*], as in configs/.")],
    data: DataOption = None,
    out: OutOption = Path("runs"),
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Threads and memory lines; for debugging.")
    ] = False,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Run every party of a config on this machine, each as a process of its own.

    They talk over loopback with mutual TLS, as they would between machines; certificates are made
    for the run and thrown away.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)
    options = (config, tuple(changes or ()), out, data)
    run = _in_process if in_process else _processes
    told.guard(lambda: _simulate(options, run, told))


def _simulate(
    options: tuple[Path, tuple[str, ...], Path, Path | None],
    run: Callable[["Plan", "Listener"], dict[str, Any]],
    told: Teller,
) -> None:
    from configs.schema import read_config
    from parties.simulate import Plan

    plan = Plan(*options)
    agreement = read_config(plan.config, plan.changes).agreement
    with told.view({name: each.role for name, each in agreement.parties.items()}) as show:
        metrics = run(plan, show)
    told.result(metrics, plan.out / agreement.federation)


def _processes(plan: "Plan", listener: "Listener") -> dict[str, Any]:
    from parties.simulate import processes

    return processes(plan, listener)


def _in_process(plan: "Plan", listener: "Listener") -> dict[str, Any]:
    from parties.in_process import in_process

    return in_process(plan, listener)


@app.command()
def certs(
    *,
    config: Annotated[Path, typer.Argument(help="The agreement that names the parties.")],
    out: Annotated[Path, typer.Option(help="A new folder for the files.")] = Path("certs"),
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long they are valid.")] = 365,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make an authority and a certificate for every party: for development and trials.

    In earnest every organisation makes its own key and has only its certificate signed.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)
    told.guard(lambda: _certs(config, out, days, told))


def _certs(config: Path, out: Path, days: int, told: Teller) -> None:
    from cryptography import x509

    from configs.schema import read_config
    from protocol.credentials import fingerprint
    from protocol.keyring import issue, make_authority

    agreement = read_config(config).agreement
    make_authority(out, agreement.federation, days)
    for name in agreement.parties:
        issue(out, agreement.federation, name, days=days)
        leaf = x509.load_pem_x509_certificate((out / f"{name}.pem").read_bytes())
        pin = fingerprint(leaf)
        told.say(f'[parties.{name}]\npins = ["{pin}"]', party=name, pin=pin)
    told.say(f"wrote {out}; give each party ca.pem and its own two files", folder=str(out))


def main() -> None:
    """Entry point of ``vfl``."""
    app()


def party_main() -> None:
    """Entry point of ``vfl-party``."""
    party_app()


def simulate_main() -> None:
    """Entry point of ``vfl-sim``."""
    simulate_app()
