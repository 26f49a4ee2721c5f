"""``vfl keys``: keys of persons who make and approve requests, and the file that lists them."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption

keys_app = typer.Typer(
    cls=CheckedGroup,
    no_args_is_help=True,
    help="Make keys of persons, and list the persons of a party.\n\n"
    'Where the party settings have requests.policy = "roles", persons make and approve requests, '
    "and sign with their own keys. A person runs `new` and gives the printed public key to the "
    "administrator of the party, who runs `add`.",
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the person (a-z, 0-9, hyphen).")
]
FileOption = Annotated[
    Path, typer.Option("--file", help="File of persons, which requests.persons names.")
]
DEFAULT_FILE = Path("persons.toml")


@keys_app.command("new", epilog="Example: vfl keys new anna.key")
def keys_new_command(
    *,
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="Write the private key to this new file.")
    ],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make a person's key, and print the public key.

    Only this account can read the file. Nobody else needs the private key.
    """
    console = _console(output, debug)
    console.run(lambda: _new(path, console))


@keys_app.command(
    "add", epilog="Example: vfl keys add anna --public 3b6a... --role requester --role approver"
)
def keys_add_command(
    *,
    name: NameArgument,
    public: Annotated[
        str, typer.Option(help="Public key that vfl keys new printed: 64 hexadecimal digits.")
    ],
    role: Annotated[
        list[str],
        typer.Option(
            help="requester (makes requests), approver (approves or rejects them), operator "
            "(carries them out) or auditor (reads them); give the option once for each role."
        ),
    ],
    file: FileOption = DEFAULT_FILE,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Add a person with roles and a public key to the file of persons."""
    console = _console(output, debug)
    console.run(lambda: _add(file, name, public, role, console))


@keys_app.command("list", epilog="Example: vfl keys list --file persons.toml")
def keys_list_command(
    *,
    file: FileOption = DEFAULT_FILE,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """List the persons of a party."""
    console = _console(output, debug)
    console.run(lambda: _list(file, console))


@keys_app.command("remove", epilog="Example: vfl keys remove anna")
def keys_remove_command(
    *,
    name: NameArgument,
    file: FileOption = DEFAULT_FILE,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Remove a person from the file of persons.

    Earlier decisions of this person stay valid.
    """
    console = _console(output, debug)
    console.run(lambda: _remove(file, name, console))


def _console(output: Format, debug: bool) -> Console:
    return Console("vfl keys", json_lines=output is Format.JSON, debug=debug)


def _new(path: Path, console: Console) -> None:
    from parties.requests.persons import make_person_key

    public = make_person_key(path)
    console.print(f"key: {path}\npublic key: {public}", event="key", file=str(path), public=public)


def _add(file: Path, name: str, public: str, roles: list[str], console: Console) -> None:
    from parties.common.errors import UsageProblem
    from parties.requests.persons import (
        Person,
        PersonRole,
        read_persons,
        read_public_key,
        write_persons,
    )

    unknown = sorted(set(roles) - {*PersonRole})
    if unknown:
        raise UsageProblem(
            f"--role {unknown[0][:40]} is unknown", f"the roles are {', '.join(PersonRole)}"
        )
    person = Person(name, frozenset(PersonRole(each) for each in roles), read_public_key(public))
    write_persons(file, [*(read_persons(file) if file.exists() else ()), person])
    console.print(f"added {name} to {file}", event="added", name=name, file=str(file))


def _list(file: Path, console: Console) -> None:
    from parties.requests.persons import read_persons

    for each in read_persons(file):
        roles = sorted(each.roles)
        console.print(
            f"{each.name}  {', '.join(roles)}  {each.key}",
            event="person",
            name=each.name,
            roles=roles,
            key=each.key,
        )


def _remove(file: Path, name: str, console: Console) -> None:
    from configs.errors import ConfigError
    from parties.requests.persons import read_persons, write_persons

    persons = read_persons(file)
    left = [each for each in persons if each.name != name]
    if len(left) == len(persons):
        known = ", ".join(each.name for each in persons) or "none"
        raise ConfigError(f"{file} has no person {name[:40]!r}", f"its persons are: {known}")
    write_persons(file, left)
    console.print(f"removed {name} from {file}", event="removed", name=name, file=str(file))
