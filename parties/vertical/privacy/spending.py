"""What all parties' releases have cost so far, asked for at the end of a run."""

from functools import partial

from parties.vertical.engine.split_model import Federation
from parties.vertical.privacy.ledger import Spent, spent_of
from protocol import vfl_pb2


def account(federation: Federation) -> dict[str, Spent]:
    """What every party's releases have cost so far, where something is to be claimed."""
    spent = federation.used_labels.spent
    found = {} if spent is None else {federation.party.name: spent}
    if federation.agreement.privacy.embed_once is None:
        return found
    ask = partial(_ask, federation)
    return found | federation.once("privacy", dict[str, Spent], ask, durable=False)


def _ask(federation: Federation) -> dict[str, Spent]:
    done = federation.tell(vfl_pb2.CLOSE, vfl_pb2.Arrange(account=vfl_pb2.Account()))
    return {name: spent_of(each.spent) for name, each in done.items()}
