"""``vfl serve`` and ``vfl unlearn run`` of a vertical party, over gRPC."""

from contextlib import closing
from functools import partial

from parties.common.progress import ProgressListener
from parties.data.party_settings import VerticalConfig
from parties.session.setup import StartOptions, hub_address
from parties.vertical.kept_model import recover_models
from parties.vertical.run_party import open_line_server
from parties.vertical.service.active import serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.passive import serve_passive
from parties.vertical.service.queue import Door
from parties.vertical.service.replay import (
    ReplayResult,
    plan_replay,
    replay_active,
    replay_passive,
)
from parties.vertical.setup import set_up_party
from protocol.grpc_line import dial_hub
from unlearning.receipts.receipt import Receipt


def replay_vertical_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    address: str | None,
    listener: ProgressListener,
    *,
    receipt: Receipt | None,
    compares: bool,
) -> ReplayResult:
    """Replay a request with the other parties.

    Args:
        config: agreement and party settings.
        name: name of the party.
        options: options of the start, with the ID of the request.
        address: address of the hub; None: that of the party settings.
        listener: receives progress and warnings.
        receipt: the receipt as an auditor has it; None: the party's own.
        compares: whether the active party compares the model with Retrains.

    Raises:
        StorageError: there is no such request, or the address cannot be used.
        PolicyError: the request cannot be replayed.
        ProtocolError: another party broke the protocol, or was lost.
    """
    party = set_up_party(config, name, options, listener)
    where = hub_address(party.settings, name, address)
    with closing(open_desk(party, party.agreement)) as desk:
        plan = plan_replay(party, desk, receipt)
    if config.agreement.parties[name].role == "passive":
        hub = config.agreement.active
        connect = partial(dial_hub, where, party.keyring, hub, party.line_timeouts)
        return replay_passive(plan, connect)
    with open_line_server(party, where) as server:
        return replay_active(plan, server, compares=compares)


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
