"""A language model as the server teaches it, and as a client learns it, from their seats."""

from dataclasses import replace
from functools import partial

from configs.language import Language
from parties.common.shared_randomness import Index
from parties.horizontal.party import FederatedParty
from parties.language.client_data import requested
from parties.language.engine.base_model import Room
from parties.language.engine.learner import LanguageLearner
from parties.language.engine.text_dataset import TextShelf
from parties.language.party import LanguageParty
from parties.language.task import LanguageSubject


def language_subject(party: FederatedParty) -> LanguageSubject:
    """What the server of this run teaches."""
    return LanguageSubject(_of_language(party))


def language_pupil(party: FederatedParty) -> LanguageLearner:
    """The client that a party is."""
    seated = _of_language(party)
    found = learner(seated.agreement, seated.name, seated.room, seated.shelf)
    return replace(found, watch=seated.watch)


def learner(agreement: Language, name: str, room: Room, shelf: TextShelf) -> LanguageLearner:
    """A client with its texts; the room is its to change."""
    meant, at_a_time = partial(_meant, agreement, name), agreement.training.micro_batch
    return LanguageLearner(name, room, shelf, agreement.seed, meant, at_a_time)


def _meant(agreement: Language, name: str, shelf: TextShelf, request: str) -> Index | None:
    known = next((each for each in agreement.unlearn if each.name == request), None)
    return None if known is None else requested(agreement, known, name, shelf)


def _of_language(party: FederatedParty) -> LanguageParty:
    if not isinstance(party, LanguageParty):
        raise TypeError(f"{type(party).__name__} has no language model")
    return party
