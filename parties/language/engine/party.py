"""State of one party in a run with a language model."""

from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from configs.language import LanguageAgreement
from configs.language_party_settings import LanguageClientSettings, LanguageServerSettings
from parties.horizontal.party import FederatedParty
from parties.language.engine.base_model import BaseModel, load_base_model
from parties.language.engine.text_dataset import TextDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageParty(FederatedParty):
    """A party with its settings and data."""

    agreement: LanguageAgreement  # agreement of the run
    settings: LanguageServerSettings | LanguageClientSettings  # the party's own settings
    folder: Path  # base folder of the relative paths in the settings
    dataset: TextDataset  # the client's texts; empty for the server

    def with_all_rows(self) -> Self:
        """Return a copy of the party from whose texts none are deleted when this party's are."""
        return replace(self, dataset=copy(self.dataset))

    @property
    def base_model(self) -> BaseModel:
        """The base model, which is loaded once per process."""
        return load_base_model(
            self.agreement, self.folder / self.settings.base, self.settings.device
        )


def as_language_party(party: FederatedParty) -> LanguageParty:
    """Return ``party``, and check that the party belongs to the language mode.

    Raises:
        TypeError: the party belongs to another mode.
    """
    if not isinstance(party, LanguageParty):
        raise TypeError(f"the party is a {type(party).__name__}, expected a party of the LLM mode")
    return party
