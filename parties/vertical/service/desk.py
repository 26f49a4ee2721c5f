"""The desk for requests of a vertical party, with what the agreement says about them."""

from configs.agreement import VerticalAgreement
from configs.config_file import agreement_digest
from configs.unlearning import table_name
from parties.requests.duties import RequestDesk
from parties.requests.receipts import Federation, params_hash
from parties.vertical.engine.party import VerticalParty
from parties.vertical.forgotten_rows import request_rules


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
    settings = party.settings.requests
    automatic, recipients = settings.policy == "automatic", settings.recipients
    return RequestDesk(party, rules, federation, automatic=automatic, recipients=recipients)
