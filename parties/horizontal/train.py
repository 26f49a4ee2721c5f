"""The training of a run: a server that was killed takes it up where it was written."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from models.server_optimisers import moments, with_moments
from parties.horizontal.engine.clusters import Tracks
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.engine.rounds import NOTHING_KEPT, Keeper, Round, run
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import Record
from parties.horizontal.registry import ORIGINAL
from parties.horizontal.task import Subject

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


@dataclass(frozen=True, slots=True)
class Span:
    """Some rounds of the training, between two requests.

    Attributes:
        first, last: the round that it begins with, and the one before which it ends.
        model: the model that it begins with, ``[d]``.
        members: who has rows to learn from.
        keeper: of the history.
    """

    first: int
    last: int
    model: Tensor
    members: Sequence[Member]
    keeper: Keeper = NOTHING_KEPT

    @property
    def name(self) -> str:
        """Of the work, in the record."""
        return f"{NAME} from {self.first}" if self.first else NAME


def train(
    party: FederatedParty, subject: Subject, cohort: Cohort, record: Record, span: Span, line: str
) -> Trained:
    """Train on a line of models; with clusters, the mean of theirs."""
    watch, groups = party.watch, subject.clusters
    # What is the clients' own has gone on since it was written.
    begun = None if groups or subject.own else record.unfinished(span.name, Begun)
    begun = begun or Begun(span.model)
    course, rounds = subject.training(ORIGINAL), list(begun.rounds)
    rule = with_moments(course.rule, begun.moments)
    watch.phase(NAME, (span.last - span.first - len(rounds)) * max(1, len(groups)))

    def told(each: Round) -> None:
        watch.step()
        absent = [str(member) for member in each.mean.absent]
        rounds.append({"round": each.number, "loss": each.mean.loss, "absent": absent})
        if not groups:
            record.stand(span.name, lambda: Begun(each.model, rounds, moments(each.rule)))

    if groups:
        tracks = Tracks(party.state / "clusters", groups)
        return Trained(tracks.train(cohort, begun.model, course, told), rounds, line)
    rest = replace(course, first=span.first + len(rounds), rounds=span.last, rule=rule)
    model = run(cohort, begun.model, span.members, rest, told, span.keeper)
    return Trained(model, rounds, line)
