"""Checks of the command line of ``vfl init``: which options belong to which role and mode."""

from collections.abc import Mapping
from pathlib import Path

from configs.errors import ConfigError
from configs.toml_file import read_toml
from parties.cli.arguments import check_hub_address
from parties.cli.options import Role
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import TableOptions, is_legal_name
from parties.common.errors import UsageProblem


def is_horizontal(role: Role | None, join: Path | None) -> bool:
    """Return whether the agreement to start or to join is of the horizontal mode.

    Raises:
        ConfigError: the agreement to join cannot be read, or is of a third mode.
    """
    if join is None:
        return role is Role.CLIENT
    mode = read_toml(join, []).get("mode", "vertical")
    if mode not in ("vertical", "horizontal"):
        raise ConfigError(
            f"{join}: --join needs an agreement of the vertical or the horizontal mode, and this "
            f"one is of the mode {mode!r}",
            "write the settings of a client of the LLM mode by hand: docs/llm.md has an example",
        )
    return bool(mode == "horizontal")


def check_init_options(
    options: InitOptions, role: Role | None, join: Path | None, *, horizontal: bool
) -> None:
    """Check that role, options and names suit each other.

    Raises:
        UsageProblem: an option belongs to another role or mode, or is not legal.
    """
    if horizontal:
        _check_federated(options, role, join)
    else:
        _check_vertical(options, role, join)
    _check_names(options)
    serves = join is None if not horizontal else role is Role.SERVER
    if options.hub:
        check_hub_address(options.hub, dials=not serves)


def _check_vertical(options: InitOptions, role: Role | None, join: Path | None) -> None:
    if join is None and role is not Role.ACTIVE:
        raise UsageProblem(
            "vfl init needs --role active, --role client or --join AGREEMENT",
            "the party with the labels gives --role active; its partner gives --join with the "
            "agreement that the active party has sent; in the horizontal mode the first client "
            "gives --role client, and all others --join",
        )
    if join is not None and role not in (None, Role.PASSIVE):
        raise UsageProblem(
            f"--join is for the passive party, not for --role {role}, because {join.name} is of "
            "the vertical mode",
            "remove --role",
        )
    federated = {"--server": options.server, "--client": options.clients}
    _refuse(federated, "the horizontal mode, with --role client")
    if join is None:
        _refuse({"--declared-rows": options.declared_rows}, "a party that joins")
    else:
        own = {"--label": options.label, "--partner": options.partner}
        _refuse(own, "the active party")
    _need_file(options)


def _check_federated(options: InitOptions, role: Role | None, join: Path | None) -> None:
    vertical = {"--partner": options.partner, "--declared-rows": options.declared_rows}
    _refuse(vertical, "the vertical mode; other clients are named with --client")
    if join is None:
        _need_file(options)
        return
    if role not in (None, Role.CLIENT, Role.SERVER):
        raise UsageProblem(
            f"{join.name} is of the horizontal mode, which has no {role} party",
            "give --role server, or no --role at a client",
        )
    started = {"--server": options.server, "--client": options.clients}
    _refuse(started, "the client that starts the agreement")
    if role is Role.SERVER:
        table: dict[str, object] = {"FILE": options.file, "--label": options.label}
        table["an option of the table"] = options.table != TableOptions()
        _refuse(table, "a client; a server has no rows")
    else:
        _need_file(options)


def _need_file(options: InitOptions) -> None:
    if not options.file:
        raise UsageProblem(
            "the file with this party's table is missing",
            "name a CSV file, a Parquet file or a URL of a database",
        )


def _refuse(given: Mapping[str, object], owner: str) -> None:
    """Refuse options with a value; ``owner`` says for whom they are."""
    for option, value in given.items():
        if value:
            raise UsageProblem(f"{option} is for {owner}", f"remove {option}")


def _check_names(options: InitOptions) -> None:
    named = [("--party", options.party), ("--partner", options.partner)]
    named += [("--server", options.server), ("--federation", options.federation)]
    named += [("--client", each) for each in options.clients]
    for option, name in named:
        if name and not is_legal_name(name):
            raise UsageProblem(
                f"{option} {name[:40]}: a name has lower-case letters, digits and hyphens",
                "begin with a letter, and write at most 31 characters",
            )
    seen: dict[str, str] = {}
    for option, name in named:
        if option == "--federation" or not name:
            continue
        if name in seen:
            raise UsageProblem(
                f"{option} and {seen[name]} are the same: {name}", "give each party another name"
            )
        seen[name] = option
