"""``vfl serve`` and ``vfl unlearn run`` of a server or a client, over gRPC."""

from contextlib import closing
from functools import partial

from configs.config_file import FederatedConfig
from configs.errors import ConfigError
from parties.common.progress import ProgressListener
from parties.horizontal.party import FederatedMode
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.service.client import serve_client
from parties.horizontal.service.desk import open_federated_desk
from parties.horizontal.service.kept_model import federated_models
from parties.horizontal.service.server import serve_server
from parties.session.setup import StartOptions, hub_address
from protocol.grpc_line import dial_hub


def serve_federated_party(
    mode: FederatedMode,
    config: FederatedConfig,
    name: str,
    options: StartOptions,
    address: str | None,
    listener: ProgressListener,
    *,
    once: bool,
) -> None:
    """Stay with a kept model, and carry out requests; with ``once``, until none is left.

    Raises:
        ConfigError: the agreement keeps no model, or the settings cannot be used.
        StorageError: no model is kept, or a folder cannot be used.
        ProtocolError: another party broke the protocol.
    """
    agreement = config.agreement
    if agreement.requests.keep != "model":
        raise ConfigError(
            f"{config.path} has requests.keep = 'nothing', so no model is kept for requests",
            "set requests.keep = 'model' at all parties, and train again",
        )
    party = mode.set_up(config, name, options, listener)
    where = hub_address(party.settings, name, address)
    for each in federated_models(party).recover():
        party.progress.warn(each)
    with closing(open_federated_desk(party)) as desk:
        if name == agreement.hub:
            with listen_for_clients(party, where) as server:
                serve_server(party, server, desk, once=once)
            return
        connect = partial(dial_hub, where, party.keyring, agreement.hub, party.line_timeouts)
        serve_client(party, connect, desk, once=once)
