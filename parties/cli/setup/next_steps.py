"""The commands that follow ``vfl init``, for each party."""

import shlex

from parties.cli.setup.files import NewFiles


def next_steps(new: NewFiles) -> list[str]:
    """Return the next commands of this party, in order, with what is sent to the other party."""
    steps = _active(new) if new.agreement.active == new.options.party else _passive(new)
    return ["next:", *(f"  {each}" for each in steps)]


def _active(new: NewFiles) -> list[str]:
    config, party = new.path, new.options.party
    certs = config.parent / "certs"
    other = new.options.partner or "PARTNER"
    back = "" if new.options.partner else "; wait until it comes back with the partner's entry"
    sign = ("vfl", "certs", "sign", config)
    return [
        f"send {config.name} to the partner, who runs: vfl init --join {config.name} FILE{back}",
        _line("vfl", "certs", "authority", config, "--out", "authority"),
        _line("vfl", "certs", "request", config, "--party", party, "--out", certs),
        _line(
            *sign, certs / f"{party}.csr", "--party", party, "--authority", "authority",
            "--out", certs,
        ),
        _line(
            *sign, f"{other}.csr", "--party", other, "--authority", "authority", "--out", "answer"
        ),
        f"  (first compare the request's fingerprint with {other} by telephone)",
        f"send answer/{other}.pem and answer/ca.pem to {other}",
        _line("vfl-party", "--role", "active", "--config", config, "--party", party),
    ]  # fmt: skip


def _passive(new: NewFiles) -> list[str]:
    config, party = new.path, new.options.party
    certs, hub = config.parent / "certs", new.agreement.active
    back = [f"send {config.name} back to {hub}"] if new.extended else []
    return [
        *back,
        _line("vfl", "certs", "request", config, "--party", party, "--out", certs),
        f"send {certs / party}.csr to {hub}; put the answer, {party}.pem and ca.pem, into {certs}",
        _line("vfl", "doctor", config, "--party", party, "--data-full"),
        _line("vfl-party", "--role", "passive", "--config", config, "--party", party),
    ]


def _line(*words: object) -> str:
    """Return a command line for a shell."""
    return shlex.join(map(str, words))
