"""Checks of the command line for common mistakes, before the options are parsed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typer.core import TyperCommand, TyperGroup

from parties.cli.console import Console
from parties.common.errors import UsageProblem
from protocol.errors import IdentityError

_NO_TLS = {"insecure", "no_tls", "plaintext", "no_verify", "skip_verify", "disable_tls"}
_LABELS = "set label = COLUMN in [data] of the active party's settings"
_HINTS = {  # for options that do not exist
    "labels": _LABELS,
    "label": _LABELS,
    "port": "give the port, from 1 to 65535, in --hub HOST:PORT",
    "timeout": "set the waiting times, each above 0 seconds, in [limits] of the agreement",
}


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of a command."""

    takes_value: bool
    multiple: bool


class CheckedCommand(TyperCommand):
    """A command that checks its options before Typer parses them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check the options, then parse them."""
        _check_options(ctx, self.params, args)
        return super().parse_args(ctx, args)


class CheckedGroup(TyperGroup):
    """A group of commands that checks their options before Typer parses them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the name of a command; without a name, fail and list all commands."""
        if not args:
            ctx.fail(f"Missing command. The commands are {', '.join(self.commands)}.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command and check its options; return its name, the command and the options."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, CheckedGroup):  # a group checks its own
            _check_options(ctx, command.params, rest)
        return name, command, rest


def check_hub_address(address: str, *, dials: bool) -> None:
    """Check the value of ``--hub``.

    Args:
        address: the value of ``--hub``.
        dials: True if the party connects to the address, False if the party listens there.

    Raises:
        UsageProblem: the value is not an address.
    """
    from configs.address import checked_address, checked_target

    try:
        checked_target(address) if dials else checked_address(address)
    except ValueError as error:
        raise UsageProblem(
            f"--hub: {error}",
            "give --hub HOST:PORT, the address where the active party or the server listens",
        ) from None


def check_continues(mode: str, version: str | None, *, serves: bool = False) -> None:
    """Check the value of ``--from``.

    Args:
        mode: the mode of the agreement.
        version: the value; None without the option.
        serves: whether the option ``--serve`` is given, too.

    Raises:
        UsageProblem: the value is neither "newest" nor a number, or the command cannot use it.
    """
    from parties.session.setup import NEWEST

    if version is None:
        return
    if version != NEWEST and not (version.isascii() and version.isdigit()):
        raise UsageProblem(
            f"--from {version[:20]}: expected {NEWEST} or the number of a version",
            "vfl models list shows the versions that this party keeps",
        )
    if serves:
        raise UsageProblem(
            "--from starts a training, but --serve stays with the kept model", "give one of the two"
        )
    if mode != "vertical":
        raise UsageProblem(
            f"--from: a training of the {mode} mode starts from its own checkpoints only",
            "omit --from",
        )


def _check_options(ctx: Any, params: Sequence[Any], args: Sequence[str]) -> None:
    known = {
        name: _Option(not (getattr(each, "is_flag", False) or each.nargs == 0), each.multiple)
        for each in params
        if each.param_type_name == "option"
        for name in (*each.opts, *each.secondary_opts)
    } | {"--help": _Option(takes_value=False, multiple=True)}
    console = Console(ctx.info_name or "vfl", json_lines="json" in args, debug="--debug" in args)
    console.run(lambda: _check(known, args))


def _check(known: Mapping[str, _Option], args: Sequence[str]) -> None:
    """Raise an error for the first wrong option; the error repeats no value."""
    given: dict[str, str] = {}
    for name, value in _options(known, args):
        if name not in known:
            _explain(name)
        elif known[name].takes_value:
            key, _, setting = value.partition("=")
            option, new = (f"{name} {key}", setting) if known[name].multiple else (name, value)
            if given.setdefault(option, new) != new:
                raise UsageProblem(
                    f"{option} is given twice, with two different values", f"give {option} once"
                )


def _options(known: Mapping[str, _Option], args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value."""
    words = iter(args)
    for word in words:
        if word == "--":
            return
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if not equals and name in known and known[name].takes_value:
                value = next(words, "")
            yield name, value


def _explain(name: str) -> None:
    """Raise an error that explains a common unknown option; return for any other."""
    from configs.errors import ConfigError
    from configs.keys import places_of
    from configs.messages import is_secret
    from parties.data.party_settings import VerticalPartySettings
    from parties.vertical.methods.registry import AGREEMENT

    word = name.lstrip("-").replace("-", "_").lower()
    if is_secret(word):
        raise UsageProblem(
            f"{name[:40]}: secrets are not allowed on a command line, because other accounts of "
            "this machine can read it",
            "store keys in files that only this account can read, and name their folder with "
            "--certificates FOLDER",
        )
    if word in _NO_TLS:
        raise IdentityError(
            f"there is no option {name}: TLS cannot be switched off, not even for a trial",
            "for a trial, make certificates with vfl certs",
        )
    if word in _HINTS:
        raise UsageProblem(f"there is no option {name}", _HINTS[word])
    if shared := places_of(AGREEMENT, word):
        raise ConfigError(
            f"there is no option {name}: the agreement, which all parties share, sets the key "
            f"{' or '.join(shared)}",
            "change the agreement at every party; otherwise the parties train different models"
            if word == "seed"
            else "change the agreement at every party, or give at every party "
            f"--set {shared[0]}=VALUE",
        )
    if places_of(VerticalPartySettings, word):
        raise UsageProblem(
            f"there is no option {name}: {word} is a party setting",
            f"write {word} = ... into the file NAME.party.toml, or into the table [settings.NAME]",
        )
