"""One party of a run that teaches a language model."""

from dataclasses import dataclass
from pathlib import Path

from configs.language import Language
from configs.language_seat import LanguageServerSeat, TextSeat
from parties.horizontal.party import FederatedParty
from parties.language.engine.base_model import Room, furnish
from parties.language.engine.text_dataset import TextShelf


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageParty(FederatedParty):
    """A seat taken; the server's shelf is empty.

    Attributes:
        folder: where relative paths of its data begin.
    """

    agreement: Language
    seat: LanguageServerSeat | TextSeat
    folder: Path
    shelf: TextShelf

    @property
    def room(self) -> Room:
        """The model, laid out once a process."""
        return furnish(self.agreement, self.folder / self.seat.base, self.seat.device)
