"""The desk for requests of a party of a run with a server, and what it states of a version."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import torch

from configs.config_file import FederatedConfig, agreement_digest
from configs.federated import FederatedAgreement
from configs.unlearning import table_name
from parties import __version__
from parties.common.errors import PolicyError
from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.service.kept_model import request_of
from parties.requests.duties import RequestDesk
from parties.requests.events import EventKind, StatedBody, StoredItem
from parties.requests.lifecycle import RequestRules, RequestView
from parties.requests.local_desk import LocalDesk, local_desk_of, offline_party
from parties.requests.persons import read_policy
from parties.requests.receipts import Federation, params_hash
from parties.requests.signing import commitment
from parties.session.setup import StartOptions
from parties.session.store.model_store import ModelStore


def federated_rules(agreement: FederatedAgreement) -> RequestRules:
    """What the states of requests depend on, from the agreement."""
    names = (agreement.hub, *agreement.spokes)
    return RequestRules(names, agreement.hub, agreement.requests.separate_persons)


def open_federated_desk(party: FederatedContext) -> RequestDesk:
    """Open the journal of requests of a party."""
    agreement, settings = party.agreement, party.settings.requests
    plan = agreement.unlearning  # type: ignore[attr-defined]
    table = getattr(plan, table_name(plan.method), None)
    federation = Federation(
        name=agreement.federation,
        roles={name: each.role for name, each in agreement.parties.items()},
        plan_hash=agreement_digest(agreement).hex(),
        params_hash=params_hash(f"{plan.method} {table.model_dump_json() if table else '{}'}"),
        guard=agreement.requests.guard,
    )
    automatic, recipients = settings.policy == "automatic", settings.recipients
    rules = federated_rules(agreement)
    return RequestDesk(
        party,
        rules,
        federation,
        automatic=automatic,
        recipients=recipients,
        refusal=partial(refusal, agreement),
    )


@contextmanager
def open_federated_local_desk(
    config: FederatedConfig, name: str, options: StartOptions, *, attends: bool = True
) -> Iterator[LocalDesk]:
    """Open the requests of party ``name`` in a ``with`` block, without its data.

    With ``attends``, the party does at once what it does by itself; not in a restored journal.

    Raises:
        ConfigError: the settings cannot be used.
        IdentityError: a certificate is missing or invalid.
        StorageError: the party's folder is absent, or cannot be used.
        IntegrityError: the journal or the key file is damaged.
    """
    settings, started = config.settings(name), offline_party(config, name, options)
    party = FederatedContext(agreement=config.agreement, settings=settings, **started.values())
    policy = read_policy(settings.requests, config.path.parent)
    with local_desk_of(party, open_federated_desk(party), policy, attends=attends) as local:
        yield local


def refusal(agreement: FederatedAgreement, view: RequestView) -> str:
    """Return why a request cannot be one of this run; empty if it can."""
    try:
        request_of(agreement, view)
    except (PolicyError, ValueError) as error:
        return str(error)
    return ""


def state_version(
    party: FederatedContext, desk: RequestDesk, store: ModelStore, sent: Sequence[bytes]
) -> None:
    """Erase the versions before the newest one, and state it in the journal.

    Nothing happens if a training made the newest version, or if it was stated before. After a
    crash the call is repeated at the next start.

    Args:
        party: the party.
        desk: its journal of requests.
        store: its kept models.
        sent: the hash chains over the messages that the party has sent to each peer.
    """
    newest = store.newest_version()
    if newest is None or newest.version is None or newest.version.made_by != "requests":
        return
    facts = newest.version
    missing = [each for each in facts.requests if not desk.has_stated(each, newest.number)]
    if not missing:
        return
    store.prune(newest.number, versions=True)
    destroyed = [
        StoredItem.model_validate({"id": f"model-{number}", "kind": kind})
        for number, kind in facts.own["older"]
    ]
    profile = {
        "torch": torch.__version__,
        "threads": str(party.settings.threads),
        "vfl": __version__,
    }
    for request in missing:
        body = StatedBody(
            version=newest.number,
            before=commitment(party, request, facts.own["before"]),
            after=commitment(party, request, facts.own["after"]),
            destroyed=tuple(destroyed),
            remains=(),
            transcript=sha256(b"".join(sent)).hexdigest(),
            profile=profile,
        )
        desk.append(EventKind.STATED, request, body)
