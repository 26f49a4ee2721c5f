"""Which subject an agreement is about: the one place that knows them all."""

from parties.horizontal.network_task import NetworkSubject, taught
from parties.horizontal.party import FederatedParty, HorizontalParty
from parties.horizontal.task import Subject, Taught


def subject(party: FederatedParty) -> Subject:
    """What the server of this run teaches."""
    if isinstance(party, HorizontalParty):
        return NetworkSubject(party.agreement)
    from parties.language.tasks import language_subject

    return language_subject(party)


def pupil(party: FederatedParty) -> Taught:
    """The client that a party is."""
    if isinstance(party, HorizontalParty):
        return taught(party)
    from parties.language.tasks import language_pupil

    return language_pupil(party)
