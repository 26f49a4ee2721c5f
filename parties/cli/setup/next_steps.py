"""The commands that follow ``vfl init``, for each party."""

import shlex

from parties.cli.setup.files import NewFiles


def next_steps(new: NewFiles) -> list[str]:
    """Return the next commands of this party, in order, with what is sent to the other party."""
    steps = _active(new) if new.agreement.active == new.options.party else _passive(new)
    return ["next:", *(f"  {each}" for each in steps)]


def _active(new: NewFiles) -> list[str]:
    config, party = new.path, new.options.party
    other = new.options.partner or "the partner"
    back = "" if new.options.partner else "; wait until it comes back with the partner's entry"
    return [
        f"send {config.name} to the partner, who runs: vfl init --join {config.name} FILE{back}",
        f"{_line('vfl', 'pair', config, '--party', party)}    (tell {other} the code by telephone)",
        _line("vfl-party", "--role", "active", "--config", config, "--party", party),
    ]


def _passive(new: NewFiles) -> list[str]:
    config, party = new.path, new.options.party
    hub = new.agreement.active
    back = [f"send {config.name} back to {hub}"] if new.extended else []
    return [
        *back,
        f"{_line('vfl', 'pair', config, '--party', party)}    (with the code that {hub} tells)",
        _line("vfl", "doctor", config, "--party", party, "--data-full"),
        _line("vfl-party", "--role", "passive", "--config", config, "--party", party),
    ]


def _line(*words: object) -> str:
    """Return a command line for a shell."""
    return shlex.join(map(str, words))
