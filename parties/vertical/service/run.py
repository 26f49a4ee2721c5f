"""``vfl serve`` and ``vfl unlearn run`` of a vertical party, over gRPC."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TypeAlias

from parties.common.progress import ProgressListener
from parties.data.party_settings import VerticalConfig
from parties.session.setup import StartOptions, hub_address
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import recover_models
from parties.vertical.run_party import open_line_server
from parties.vertical.service.active import PredictionQueue, serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.passive import serve_passive
from parties.vertical.setup import set_up_party
from protocol.grpc_line import dial_hub

Door: TypeAlias = Callable[[VerticalParty], AbstractContextManager[PredictionQueue]]


def serve_vertical_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    address: str | None,
    listener: ProgressListener,
    *,
    door: Door,
    once: bool = False,
) -> None:
    """Run one party with its kept model, until it is stopped, or until nothing is left to do.

    Args:
        config: agreement and party settings.
        name: name of the party.
        options: options of the start.
        address: address of the hub; None: that of the party settings.
        listener: receives progress and warnings.
        door: opens the queue of predictions of the active party.
        once: whether to end when nothing is left to do.

    Raises:
        StorageError: no model is kept, or the address cannot be used.
    """
    party = set_up_party(config, name, options, listener)
    recover_models(party).require()
    where = hub_address(party.settings, name, address)
    with closing(open_desk(party, party.agreement)) as desk:
        if config.agreement.parties[name].role == "passive":
            hub = config.agreement.active
            connect = partial(dial_hub, where, party.keyring, hub, party.line_timeouts)
            serve_passive(party, connect, desk, once=once)
            return
        with open_line_server(party, where) as server, door(party) as predictions:
            serve_active(party, server, desk, predictions, once=once)
