"""``vfl serve`` and ``vfl unlearn run`` of a vertical party, over gRPC."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TypeAlias

from configs.agreement import VerticalAgreement
from configs.config_file import agreement_digest
from configs.unlearning import table_name
from parties.common.progress import ProgressListener
from parties.data.party_settings import VerticalConfig
from parties.requests.duties import RequestDesk
from parties.requests.receipts import Federation, params_hash
from parties.session.setup import StartOptions, hub_address
from parties.vertical.engine.party import VerticalParty
from parties.vertical.forgotten_rows import request_rules
from parties.vertical.kept_model import recover_models
from parties.vertical.run_party import open_line_server
from parties.vertical.service.active import PredictionQueue, serve_active
from parties.vertical.service.passive import serve_passive
from parties.vertical.setup import set_up_party
from protocol.grpc_line import dial_hub

Door: TypeAlias = Callable[[VerticalParty], AbstractContextManager[PredictionQueue]]


def federation_of(agreement: VerticalAgreement) -> Federation:
    """What receipts say about the federation."""
    method = agreement.unlearning.method
    settings = getattr(agreement.unlearning, table_name(method), None)
    content = settings.model_dump_json() if settings is not None else "{}"
    return Federation(
        name=agreement.federation,
        roles={name: each.role for name, each in agreement.parties.items()},
        plan_hash=agreement_digest(agreement).hex(),
        params_hash=params_hash(f"{method} {content}"),
        guard=agreement.requests.guard,
    )


def open_desk(party: VerticalParty, agreement: VerticalAgreement) -> RequestDesk:
    """Open the journal of requests of a vertical party."""
    rules, federation = request_rules(agreement), federation_of(agreement)
    automatic = party.settings.requests.policy == "automatic"
    return RequestDesk(party, rules, federation, automatic=automatic)


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
