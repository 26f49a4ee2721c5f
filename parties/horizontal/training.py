"""The training of a run: a server that was killed takes it up where it was written."""

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from models.server_optimisers import moments, with_moments
from parties.horizontal.choice import ORIGINAL, clusters, training
from parties.horizontal.clusters import Tracks
from parties.horizontal.cohort import Cohort, Member
from parties.horizontal.history import StoredRounds
from parties.horizontal.learning.networks import fresh
from parties.horizontal.learning.personal import has_own
from parties.horizontal.party import HorizontalParty
from parties.horizontal.record import Record
from parties.horizontal.rounds import Round, run

NAME = "training"  # of the work, in the record


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model, and of every round its loss and who was missing.

    Attributes:
        line: to which what is the clients' own belongs.
    """

    model: Tensor
    rounds: list[dict[str, Any]]
    line: str


@dataclass(frozen=True, slots=True)
class Begun:
    """How far a training has come.

    Attributes:
        moments: what the server's rule remembers.
    """

    model: Tensor
    rounds: list[dict[str, Any]] = field(default_factory=list)
    moments: dict[str, Tensor] = field(default_factory=dict)


def train(party: HorizontalParty, cohort: Cohort, record: Record, line: str) -> Trained:
    """Train on a line of models; with clusters, the mean of theirs."""
    agreement, watch = party.agreement, party.watch
    groups = clusters(agreement)
    # What is the clients' own has gone on since it was written.
    begun = None if groups or has_own(agreement) else record.unfinished(NAME, Begun)
    begun = begun or Begun(fresh(agreement, ORIGINAL))
    course, rounds = training(agreement, ORIGINAL), list(begun.rounds)
    rule = with_moments(course.rule, begun.moments)
    watch.phase(NAME, (course.rounds - len(rounds)) * max(1, len(groups)))

    def told(each: Round) -> None:
        watch.step()
        absent = [str(member) for member in each.mean.absent]
        rounds.append({"round": each.number, "loss": each.mean.loss, "absent": absent})
        if not groups:
            record.stand(NAME, lambda: Begun(each.model, rounds, moments(each.rule)))

    if groups:
        tracks = Tracks(party.state / "clusters", groups)
        return Trained(tracks.train(cohort, begun.model, course, told), rounds, line)
    rest = replace(course, first=len(rounds), rule=rule)
    members = [Member(name) for name in agreement.spokes]
    history = StoredRounds(party.state / "history", agreement.history.every)
    return Trained(run(cohort, begun.model, members, rest, told, history), rounds, line)
