"""The page of a passive party: what it gave, what left its machine, and what it deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from parties.report.pages.privacy_words import PrivacyLine
from parties.report.pages.templates import render
from parties.report.record import PeerTraffic, PhaseTraffic


@dataclass(frozen=True, slots=True)
class PassiveFacts:
    """What a passive party knows of a finished run; nothing of it comes from another party's rows.

    Attributes:
        party: name of the party.
        active: name of the active party.
        federation: name of the federation.
        session: identifier of the run.
        agreement: digest of the agreement.
        began: when the run began.
        ended: when it ended.
        seconds: its duration, without the time between a checkpoint and a crash.
        held_rows: number of rows in the party's data.
        common_rows: number of rows that all parties have.
        present_rows: number of common rows of which the party still keeps the features.
        row_sets: number of common rows to learn, to validate and to test.
        columns: names of the party's own columns; empty for images.
        width: numbers in an embedding.
        parameters: parameters of the party's part of the model.
        embeddings: number of embeddings of single rows that the party sent.
        privacy: the privacy claims for the party's own data.
        purged: what the party deleted in this process at requests to forget.
        phases: traffic by phase.
        peers: traffic by peer.
        software: versions of the software by name.
    """

    party: str
    active: str
    federation: str
    session: str
    agreement: str
    began: datetime
    ended: datetime
    seconds: float
    held_rows: int
    common_rows: int
    present_rows: int
    row_sets: dict[str, int]
    columns: tuple[str, ...]
    width: int
    parameters: int
    embeddings: int
    privacy: Sequence[PrivacyLine]
    purged: Sequence[str]
    phases: Sequence[PhaseTraffic]
    peers: Sequence[PeerTraffic]
    software: dict[str, str]


def passive_page(facts: PassiveFacts) -> str:
    """Return the page of a passive party, as one HTML page without other files."""
    return render(
        "passive.html", facts=facts, headline=f"{facts.party} in the run {facts.federation}"
    )
