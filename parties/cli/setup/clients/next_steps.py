"""The commands that follow ``vfl init`` in the horizontal mode, for each party."""

from parties.cli.setup.clients.agreement import ASSUMED_CLIENT
from parties.cli.setup.clients.files import FederatedFiles
from parties.cli.setup.next_steps import command_line


def federated_next_steps(new: FederatedFiles) -> list[str]:
    """Return the next steps of this party, in order."""
    name, party, agreement = new.path.name, new.options.party, new.agreement
    steps = []
    if new.proposal is not None and not new.compared:  # the first client
        steps += [
            f"send {name} to {agreement.hub}, who runs: vfl init --join {name} --role server",
            f"send {name} to the other clients, one after another; each runs: vfl init --join "
            f"{name} FILE, and sends the file back if the command changed it",
        ]
    elif new.extended:
        steps.append(f"send {name} to all parties: everyone must take this file before the run")
    if ASSUMED_CLIENT in agreement.spokes:
        steps.append(f"wait for the last {name}: the next commands need at least two clients in it")
    role = "server" if party == agreement.hub else "client"
    steps.append(
        "keys: docs/deploy.md, or for a trial on one machine: "
        + command_line("vfl", "certs", new.path, "--out", new.path.parent / "certs")
    )
    if role == "client":
        steps.append(command_line("vfl", "doctor", new.path, "--party", party, "--data-full"))
    steps.append(command_line("vfl-party", "--role", role, "--config", new.path, "--party", party))
    return ["next:", *(f"  {each}" for each in steps)]
