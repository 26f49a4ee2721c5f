"""Data that the server and each client of a run have in common."""

from dataclasses import dataclass

from configs.federated import FederatedAgreement
from parties.session.party import PartyContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedContext(PartyContext):
    """Settings, identity and agreement of one party, the server or a client."""

    agreement: FederatedAgreement
