"""One party of a vertical run: its settings, identity and data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from configs.agreement import VerticalAgreement
from parties.data.holding import Holding
from parties.data.party_settings import VerticalPartySettings
from parties.session.party import PartyContext

if TYPE_CHECKING:
    from parties.vertical.engine.networks import KeptPart

SECONDS_PER_ROW = 1e-3  # time limit of work on all rows: about a hundred times what a row needs


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalParty(PartyContext):
    """A party of a vertical run, with its data."""

    agreement: VerticalAgreement
    settings: VerticalPartySettings
    holding: Holding
    base: "KeptPart | None" = None
