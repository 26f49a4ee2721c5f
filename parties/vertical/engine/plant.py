"""What requests plant in the training rows before anything learns from them."""

from parties.vertical.engine.split_model import Federation
from parties.vertical.requests import Chosen, relabel
from protocol import vfl_pb2


def plant(federation: Federation, chosen: list[Chosen]) -> None:
    """Relabel what the requests plant, and have one party stamp what bears a trigger."""
    if federation.replaying:
        return
    relabel(chosen, federation.labels, federation.agreement.labels.classes)
    for each in chosen:
        if each.request.backdoor:
            party = each.request.backdoor.party
            federation.have(party, vfl_pb2.TRAIN, vfl_pb2.Stamp(), each.poisoned)
