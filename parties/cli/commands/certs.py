"""``vfl certs``: certificates for a trial at one stroke, or for organisations that keep their keys.

``vfl certs CONFIG`` makes everything in one place. In earnest one organisation makes the authority
once; every party makes its key and a request at home, sends the request, and gets a certificate.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from parties.cli.arguments import Commands
from parties.cli.console import Teller
from parties.cli.options import DebugOption, Format, FormatOption

_WHOLE = "all"


class _OrWhole(Commands):
    """``vfl certs CONFIG`` means ``vfl certs all CONFIG``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the whole in front where no command is named."""
        named = not args or args[0] in {*self.commands, "--help"}
        return super().parse_args(ctx, args if named else [_WHOLE, *args])


certs_app = typer.Typer(
    cls=_OrWhole,
    no_args_is_help=True,
    help="Certificates: CONFIG alone makes all of them here, for a trial.",
)

ConfigArgument = Annotated[Path, typer.Argument(help="The agreement that names the parties.")]
PartyOption = Annotated[str, typer.Option("--party", help="The party, as the agreement names it.")]
DaysOption = Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")]


@certs_app.command(_WHOLE)
def everything(
    *,
    config: ConfigArgument,
    out: Annotated[Path, typer.Option(help="A new folder for the files.")] = Path("certs"),
    days: DaysOption = 365,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make an authority, and a key and certificate for every party: for development and trials.

    In earnest every organisation makes its own key and has only its certificate signed.
    """
    told = _teller(output, debug)
    told.guard(lambda: _everything(config, out, days, told))


@certs_app.command()
def authority(
    *,
    config: ConfigArgument,
    out: Annotated[Path, typer.Option(help="A new folder; keep it from the parties' machines.")],
    days: DaysOption = 1825,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make the federation's authority: ca.pem for every party, ca.key for nobody else."""
    told = _teller(output, debug)
    told.guard(lambda: _authority(config, out, days, told))


@certs_app.command()
def request(
    *,
    config: ConfigArgument,
    party: PartyOption,
    out: Annotated[Path, typer.Option(help="The party's folder of certificates.")] = Path("certs"),
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make this party's key, and a request for its certificate; only the request is sent.

    A key that is there already is kept: that is how a certificate is renewed with the same pin.
    """
    told = _teller(output, debug)
    told.guard(lambda: _request(config, party, out, told))


@certs_app.command()
def sign(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    asked: Annotated[Path, typer.Argument(metavar="REQUEST", help="The .csr that came.")],
    party: PartyOption,
    authority: Annotated[Path, typer.Option(help="The folder with ca.pem and ca.key.")],
    out: Annotated[Path, typer.Option(help="Folder for the certificate.")] = Path(),
    days: DaysOption = 365,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Answer a party's request with a certificate; its key stays where it is."""
    told = _teller(output, debug)
    told.guard(lambda: _sign(config, (asked, party, authority, out), days, told))


@certs_app.command()
def fingerprint(
    *,
    file: Annotated[Path, typer.Argument(help="A certificate (.pem) or a request (.csr).")],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Show the pin of a key in groups that can be read out over the telephone."""
    told = _teller(output, debug)
    told.guard(lambda: _fingerprint(file, told))


def _teller(output: Format, debug: bool) -> Teller:
    return Teller("vfl", json_lines=output is Format.JSON, debug=debug)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Files that cannot be written are this machine's fault, exit code 7."""
    from parties.common.errors import StorageError

    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(f"cannot write in {folder}: {reason}", "choose another --out") from error


def _everything(config: Path, out: Path, days: int, told: Teller) -> None:
    from configs.any_file import read_any
    from protocol.keyring import issue, make_authority
    from protocol.signing import pin_of

    agreement = read_any(config).agreement
    with _writing(out):
        make_authority(out, agreement.federation, days)
    for name in agreement.parties:
        with _writing(out):
            issue(out, agreement.federation, name, days=days)
        pin = pin_of(out / f"{name}.pem")
        told.say(f'[parties.{name}]\npins = ["{pin}"]', party=name, pin=pin)
    told.say(f"wrote {out}; give each party ca.pem and its own two files", folder=str(out))


def _authority(config: Path, out: Path, days: int, told: Teller) -> None:
    from configs.any_file import read_any
    from protocol.keyring import AUTHORITY, AUTHORITY_KEY, make_authority

    federation = read_any(config).agreement.federation
    with _writing(out):
        make_authority(out, federation, days)
    told.say(
        f"wrote {out}; {AUTHORITY} goes to every party, {AUTHORITY_KEY} stays here alone",
        folder=str(out),
    )


def _request(config: Path, party: str, out: Path, told: Teller) -> None:
    from protocol.signing import request_certificate

    federation = _federation(config, party)
    with _writing(out):
        pin = request_certificate(out, federation, party)
    wish = out / f"{party}.csr"
    told.say(f"wrote {wish}: send it to the authority; {party}.key stays here", request=str(wish))
    _show(pin, told)


def _sign(config: Path, places: tuple[Path, str, Path, Path], days: int, told: Teller) -> None:
    from protocol.keyring import write_new
    from protocol.signing import pin_of, sign_request

    asked, party, authority, out = places
    federation = _federation(config, party)
    certificate = sign_request(authority, federation, party, asked, days)
    made = out / f"{party}.pem"
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write_new(made, certificate, 0o644)
    told.say(f"wrote {made}: send it back, with ca.pem", certificate=str(made))
    _show(pin_of(made), told)


def _fingerprint(file: Path, told: Teller) -> None:
    from protocol.signing import pin_of

    _show(pin_of(file), told)


def _show(pin: str, told: Teller) -> None:
    from protocol.signing import grouped

    lines = "\n".join(f"  {line}" for line in grouped(pin))
    told.say(f'the key\'s fingerprint:\n{lines}\npins = ["{pin}"]', pin=pin)


def _federation(config: Path, party: str) -> str:
    from configs.any_file import read_any
    from configs.errors import ConfigError

    agreement = read_any(config).agreement
    if party not in agreement.parties:
        raise ConfigError(
            f"{party!r} is no party of {config}",
            f"the parties are {', '.join(sorted(agreement.parties))}",
        )
    return agreement.federation
