"""The end of a request: every party drops what remembers its rows, and looks for what is left."""

from parties.vertical.engine.split_model import Federation
from parties.vertical.residue_check import remains
from protocol import vfl_pb2


def purge(federation: Federation, name: str) -> dict[str, list[str]]:
    """Have every party drop all that remembers the forgotten rows of request ``name``.

    Returns:
        What each party dropped.
    """
    before = federation.replaying
    purged = federation.once(f"purge of {name}", dict, lambda: _purge(federation), durable=False)
    if before:
        federation.state.forgotten_for_good()
    federation.settle()
    return purged


def search(federation: Federation) -> dict[str, list[str]]:
    """Where parties still find rows of the last request, in memory and in their files.

    Only within ``once``, since all answer.
    """
    done = federation.tell(vfl_pb2.UNLEARN, vfl_pb2.Arrange(search=vfl_pb2.Search()))
    gone = federation.state.dropped
    ours = remains(federation.state, federation.checkpoints) + federation.passes.remains(gone)
    ours += federation.used_labels.remains(gone)
    return {federation.party.name: ours} | {name: list(each.left) for name, each in done.items()}


def _purge(federation: Federation) -> dict[str, list[str]]:
    done = federation.tell(vfl_pb2.UNLEARN, vfl_pb2.Purge())
    dropped = federation.state.dropped
    ours = federation.state.purge()
    ours += federation.passes.forget(dropped) + federation.used_labels.forget(dropped)
    ours.append(f"row map, features and labels of {len(dropped)} rows")
    ours.append("checkpoints from before")
    return {federation.party.name: ours} | {name: list(each.purged) for name, each in done.items()}
