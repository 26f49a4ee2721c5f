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
    pair = command_line("vfl", "pair", config, "--party", party)
    return [
        f"send {config.name} to the partner, who runs: vfl init --join {config.name} FILE{back}",
        f"{pair}    (tell {other} the code by telephone)",
        command_line("vfl-party", "--role", "active", "--config", config, "--party", party),
    ]


def _passive(new: NewFiles) -> list[str]:
    config, party = new.path, new.options.party
    hub = new.agreement.active
    others = sorted(each for each in new.agreement.passive if each != party)
    also = f", and to {' and '.join(others)}" if others else ""
    back = [f"send {config.name} back to {hub}{also}"] if new.extended else []
    pair = command_line("vfl", "pair", config, "--party", party)
    return [
        *back,
        f"{pair}    (with the code that {hub} tells)",
        command_line("vfl", "doctor", config, "--party", party, "--data-full"),
        command_line("vfl-party", "--role", "passive", "--config", config, "--party", party),
    ]


def command_line(*words: object) -> str:
    """Return a command line for a shell."""
    return shlex.join(map(str, words))
