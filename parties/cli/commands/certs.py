"""``vfl certs``: keys and certificates, all at once for a trial, or party by party in production.

In production, one organisation makes the certificate authority. Each party makes its key and a
certificate request on its own machine, sends the request to the authority, and receives its
certificate.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.console import Console
from parties.cli.options import ConfigArgument, DebugOption, Format, FormatOption

_DEFAULT = "all"


class _DefaultToAll(CheckedGroup):
    """A group in which ``vfl certs CONFIG`` means ``vfl certs all CONFIG``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``all`` if the first argument is not a command."""
        named = not args or args[0] in {*self.commands, "--help"}
        return super().parse_args(ctx, args if named else [_DEFAULT, *args])


certs_app = typer.Typer(
    cls=_DefaultToAll,
    no_args_is_help=True,
    help="Make keys and certificates.\n\n"
    "For a trial, `vfl certs CONFIG` makes all keys and certificates on this machine. In "
    "production, the authority runs `authority` and `sign`, and each party runs `request` on its "
    "own machine, so that the party's key never leaves that machine.",
)

PartyOption = Annotated[
    str, typer.Option("--party", help="Name of the party, as in the agreement.")
]
DaysOption = Annotated[
    int, typer.Option(min=1, max=3650, help="Number of days until a new certificate expires.")
]


@certs_app.command(_DEFAULT)
def certs_all_command(
    *,
    config: ConfigArgument,
    out: Annotated[
        Path, typer.Option(help="Write the keys and certificates into this folder.")
    ] = Path("certs"),
    days: DaysOption = 365,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make a certificate authority, and a key and a certificate for each party, for a trial.

    In production each organisation makes its own key, and the authority signs
    the certificate.
    """
    console = _console(output, debug)
    console.run(lambda: _everything(config, out, days, console))


@certs_app.command("authority")
def certs_authority_command(
    *,
    config: ConfigArgument,
    out: Annotated[
        Path,
        typer.Option(
            help="Write ca.pem and ca.key into this folder. "
            "Run this command on a machine that belongs to no party."
        ),
    ],
    days: DaysOption = 1825,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make the certificate authority of a federation.

    Give ca.pem to each party. Keep ca.key secret, because whoever has
    ca.key can make a certificate for any party.
    """
    console = _console(output, debug)
    console.run(lambda: _authority(config, out, days, console))


@certs_app.command("request")
def certs_request_command(
    *,
    config: ConfigArgument,
    party: PartyOption,
    out: Annotated[
        Path, typer.Option(help="Write the key and the request into this folder.")
    ] = Path("certs"),
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make a party's key and a certificate request.

    Send the request to the authority; the key stays on this machine. If the
    folder already has a key, the command uses that key, so that a renewed
    certificate has the same pin.
    """
    console = _console(output, debug)
    console.run(lambda: _request(config, party, out, console))


@certs_app.command("sign")
def certs_sign_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: Annotated[
        Path,
        typer.Argument(metavar="REQUEST", help="Certificate request (.csr file) of the party."),
    ],
    party: PartyOption,
    authority: Annotated[Path, typer.Option(help="Read ca.pem and ca.key from this folder.")],
    out: Annotated[Path, typer.Option(help="Write the certificate into this folder.")] = Path(),
    days: DaysOption = 365,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Sign a party's certificate request; write the certificate and ca.pem.

    Send the certificate and ca.pem to the party.
    """
    console = _console(output, debug)
    console.run(lambda: _sign(config, (request, party, authority, out), days, console))


@certs_app.command("fingerprint")
def certs_fingerprint_command(
    *,
    file: Annotated[
        Path, typer.Argument(help="A certificate (.pem) or a certificate request (.csr).")
    ],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Print the fingerprint (pin) of a key in groups, for comparison over the telephone."""
    console = _console(output, debug)
    console.run(lambda: _fingerprint(file, console))


def _console(output: Format, debug: bool) -> Console:
    return Console("vfl", json_lines=output is Format.JSON, debug=debug)


def _writing(folder: Path) -> AbstractContextManager[None]:
    from parties.common.atomic_file import writing_into

    return writing_into(folder, "choose another --out folder")


def _everything(config: Path, out: Path, days: int, console: Console) -> None:
    from configs.config_file import read_any
    from parties.cli.modes import SCHEMAS
    from protocol.certificate_request import read_pin
    from protocol.keyring import issue_certificate, make_authority

    agreement = read_any(config, SCHEMAS).agreement
    with _writing(out):
        make_authority(out, agreement.federation, days)
    for name in agreement.parties:
        with _writing(out):
            issue_certificate(out, agreement.federation, name, days=days)
        pin = read_pin(out / f"{name}.pem")
        console.print(f'[parties.{name}]\npins = ["{pin}"]', party=name, pin=pin)
    console.print(f"wrote {out}; give each party ca.pem and its own .pem and .key", folder=str(out))


def _authority(config: Path, out: Path, days: int, console: Console) -> None:
    from configs.config_file import read_any
    from parties.cli.modes import SCHEMAS
    from protocol.keyring import AUTHORITY, AUTHORITY_KEY, make_authority

    federation = read_any(config, SCHEMAS).agreement.federation
    with _writing(out):
        make_authority(out, federation, days)
    console.print(
        f"wrote {out}; give {AUTHORITY} to each party, keep {AUTHORITY_KEY} secret",
        folder=str(out),
    )


def _request(config: Path, party: str, out: Path, console: Console) -> None:
    from protocol.certificate_request import request_certificate

    federation = _federation(config, party)
    with _writing(out):
        pin = request_certificate(out, federation, party)
    request = out / f"{party}.csr"
    console.print(
        f"wrote {request}: send it to the authority; keep {party}.key here", request=str(request)
    )
    _show(pin, console)


def _sign(config: Path, options: tuple[Path, str, Path, Path], days: int, console: Console) -> None:
    from protocol.certificate_request import read_pin, sign_request
    from protocol.keyring import AUTHORITY, write_new_file

    request, party, authority, out = options
    federation = _federation(config, party)
    content = sign_request(authority, federation, party, request, days)
    certificate = out / f"{party}.pem"
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write_new_file(certificate, content, 0o644)
        if not (out / AUTHORITY).exists():
            write_new_file(out / AUTHORITY, (authority / AUTHORITY).read_bytes(), 0o644)
    console.print(
        f"wrote {certificate}: send it to {party}, with {out / AUTHORITY}",
        certificate=str(certificate),
    )
    _show(read_pin(certificate), console)


def _fingerprint(file: Path, console: Console) -> None:
    from protocol.certificate_request import read_pin

    _show(read_pin(file), console)


def _show(pin: str, console: Console) -> None:
    from protocol.certificate_request import format_pin

    lines = "\n".join(f"  {line}" for line in format_pin(pin))
    console.print(f'the key\'s fingerprint:\n{lines}\npins = ["{pin}"]', pin=pin)


def _federation(config: Path, party: str) -> str:
    from configs.config_file import read_any
    from configs.errors import ConfigError
    from parties.cli.modes import SCHEMAS

    agreement = read_any(config, SCHEMAS).agreement
    if party not in agreement.parties:
        raise ConfigError(
            f"{config} has no party {party!r}",
            f"the parties are {', '.join(sorted(agreement.parties))}",
        )
    federation: str = agreement.federation
    return federation
