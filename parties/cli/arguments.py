"""What nobody can mean on a command line, refused in words before any option is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typer.core import TyperCommand, TyperGroup

from parties.cli.console import Teller
from parties.common.errors import UsageProblem
from protocol.errors import IdentityError

_NO_TLS = {"insecure", "no_tls", "plaintext", "no_verify", "skip_verify", "disable_tls"}
_MEANT = {
    "labels": "labels stand in the active party's seat: label = COLUMN in its [data]",
    "label": "labels stand in the active party's seat: label = COLUMN in its [data]",
    "serve": "only the active party listens, at --hub HOST:PORT; a passive party dials it",
    "port": "the port is a part of --hub HOST:PORT, from 1 to 65535",
    "timeout": "how long a party waits is agreed: [limits], each above 0 seconds",
}


@dataclass(frozen=True, slots=True)
class _Known:
    """An option that a command has."""

    takes_value: bool
    multiple: bool


class Command(TyperCommand):
    """A command whose options are looked at before they are read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse in words, then as Typer does."""
        _guarded(ctx, self.params, args)
        return super().parse_args(ctx, args)


class Commands(TyperGroup):
    """Commands whose options are looked at before they are read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a command, say which there are."""
        if not args:
            ctx.fail(f"Missing command. The commands are {', '.join(self.commands)}.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant; its own options are refused in words."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, Commands):  # these look themselves
            _guarded(ctx, command.params, rest)
        return name, command, rest


def check_hub(address: str, *, dials: bool) -> None:
    """Refuse an address that is none; raises ``UsageProblem``."""
    from configs.address import checked_address, checked_target

    try:
        checked_target(address) if dials else checked_address(address)
    except ValueError as error:
        raise UsageProblem(
            f"--hub: {error}", "--hub HOST:PORT, as the active party listens"
        ) from None


def _guarded(ctx: Any, params: Sequence[Any], args: Sequence[str]) -> None:
    known = {
        name: _Known(not (getattr(each, "is_flag", False) or each.nargs == 0), each.multiple)
        for each in params
        if each.param_type_name == "option"
        for name in (*each.opts, *each.secondary_opts)
    } | {"--help": _Known(takes_value=False, multiple=True)}
    told = Teller(ctx.info_name or "vfl", json_lines="json" in args, debug="--debug" in args)
    told.guard(lambda: _check(known, args))


def _check(known: Mapping[str, _Known], args: Sequence[str]) -> None:
    """Raise what is wrong with the options of ``args``; no value is repeated."""
    said: dict[str, str] = {}
    for name, value in _options(known, args):
        if name not in known:
            _explain(name)
        elif known[name].takes_value:
            key, _, value_there = value.partition("=")
            place, there = (f"{name} {key}", value_there) if known[name].multiple else (name, value)
            if said.setdefault(place, there) != there:
                raise UsageProblem(f"{place} is given twice, with different values", "give it once")


def _options(known: Mapping[str, _Known], args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every option with its value; what it takes from the next word is passed over."""
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
    """Raise what an unknown option would have meant; silent where nobody knows."""
    from configs.agreement import Agreement
    from configs.errors import ConfigError
    from configs.keys import places_of
    from configs.problems import is_secret
    from configs.seat import Seat

    word = name.lstrip("-").replace("-", "_").lower()
    if is_secret(word):
        raise UsageProblem(
            f"{name[:40]}: secrets do not belong on a command line, where others can read them",
            "keys stand in files that only this account can read: --certificates FOLDER",
        )
    if word in _NO_TLS:
        raise IdentityError(
            f"{name} does not exist: TLS is never off, on no address and for no trial",
            "vfl certs makes certificates for trials",
        )
    if word in _MEANT:
        raise UsageProblem(f"there is no {name}", _MEANT[word])
    if shared := places_of(Agreement, word):
        raise ConfigError(
            f"{name} is a setting of the agreement, which all parties share: {', '.join(shared)}",
            "change the agreement at every party; only then all train one and the same model"
            if word == "seed"
            else f"change the agreement at every party, or say --set {shared[0]}=VALUE at each",
        )
    if places_of(Seat, word):
        raise UsageProblem(
            f"there is no {name}: it is a setting of the seat",
            f"write {word} = ... in [seats.NAME] or NAME.seat.toml",
        )
