"""``vfl pair``: two organisations exchange keys and pins by a one-time code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Console
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DebugOption,
    Format,
    FormatOption,
    HubOption,
    PartyOption,
)

if TYPE_CHECKING:
    from parties.cli.setup.pairing import PairingPlace

CodeOption = Annotated[
    str | None,
    typer.Option("--code", help="Code that the hub shows; else it is asked for."),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        help="At the hub: folder of the certificate authority; else authority/ beside the "
        "agreement. It is made if it is absent."
    ),
]
WaitOption = Annotated[
    float, typer.Option(min=1.0, max=86_400.0, help="Seconds to wait for the other parties.")
]


def pair_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    code: CodeOption = None,
    authority: AuthorityOption = None,
    hub: HubOption = None,
    certificates: CertificatesOption = None,
    wait: WaitOption = 3600.0,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Exchange keys and certificates with the other parties, and pin them in the agreement.

    The hub (active party or server) runs this command first. It shows one code
    for each partner and waits. Tell each partner its code by telephone. The
    partner runs the same command, and types the code. A code is used once; a
    wrong code ends the command, so nobody can try codes.

    Private keys stay on their machines. Nobody has to compare fingerprints.

    Exit codes: 2 usage, 3 config, 5 identity, 6 connection, 7 storage.
    """
    console = Console(party, json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        place = _place(config, party, hub, certificates, wait)
        if party == place.agreement.hub:
            _as_hub(place, code, authority, console)
        else:
            _as_partner(place, code, authority, console)

    console.run(work)


def _place(
    config: Path, party: str, hub: str | None, certificates: Path | None, seconds: float
) -> "PairingPlace":
    from configs.config_file import read_any
    from parties.cli.arguments import check_hub_address
    from parties.cli.modes import SCHEMAS
    from parties.cli.setup.pairing import PairingPlace
    from parties.session.setup import hub_address

    read = read_any(config, SCHEMAS)
    settings = read.settings(party)
    if hub is not None:
        check_hub_address(hub, dials=party != read.agreement.hub)
    return PairingPlace(
        config=read,
        party=party,
        certificates=certificates or config.parent / settings.certificates,
        address=hub_address(settings, party, hub),
        seconds=seconds,
    )


def _as_hub(
    place: "PairingPlace", code: str | None, authority: Path | None, console: Console
) -> None:
    from parties.cli.setup.pairing import pair_as_hub
    from parties.common.errors import UsageProblem
    from protocol.pairing.exchange import new_code

    if code is not None:
        raise UsageProblem(f"{place.party} is the hub, which makes the codes", "remove --code")
    codes = {name: new_code() for name in place.partners}
    for name, each in codes.items():
        console.print(
            f"code for {name}: {each}\n  tell it by telephone; {name} then runs: "
            f"vfl pair {place.config.path.name} --party {name}",
            event="code", partner=name, code=each,
        )  # fmt: skip
    console.print(f"waiting for {', '.join(codes)} at {place.address}", event="waiting")
    pair_as_hub(
        place,
        codes,
        authority or place.config.path.parent / "authority",
        lambda name, _: console.print(f"{name} has the right code", event="paired", partner=name),
    )
    _show_end(place, console)
    console.print("keep authority/ca.key secret: it can make a certificate for any party")


def _as_partner(
    place: "PairingPlace", code: str | None, authority: Path | None, console: Console
) -> None:
    from parties.cli.setup.pairing import pair_as_partner
    from parties.common.errors import UsageProblem

    hub = place.agreement.hub
    if authority is not None:
        raise UsageProblem(f"--authority is for the hub, {hub}", "remove --authority")
    try:
        digits = code or typer.prompt(f"Code that {hub} shows")
        console.print(f"calling {hub} at {place.address}; waiting for all parties", event="waiting")
        pair_as_partner(place, digits)
    except ValueError as error:
        raise UsageProblem(str(error), f"type the code that vfl pair shows at {hub}") from None
    _show_end(place, console)


def _show_end(place: "PairingPlace", console: Console) -> None:
    path = place.config.path
    console.print(
        f"wrote {place.certificates / place.party}.pem, and the pins of all parties into {path}",
        event="wrote", certificates=str(place.certificates), agreement=str(path),
    )  # fmt: skip
