"""Knot: of clusters that learned apart, only the leaving client's goes back and learns again.

It goes back to before the client's first round and goes on without it; the other clusters never
knew of it (Su and Li 2023). Synchronous, where the paper is not. Clusters are dealt by the seed:
the paper's assignment by training time and by the likeness of updates puts the client's rows into
who is where, and retraining one cluster does not take them out. For the same reason the model of
all clusters is their mean, and not the one that is best on somebody's rows; where clients differ
much it is poor.
"""

from dataclasses import dataclass

from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.clusters import average, follow
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import Course, Round
from parties.horizontal.engine.unlearning_context import Scene, Turn
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Knot:
    """The rounds of the training again, for the clusters of who leaves.

    Exact: bit-equal to a training of the same clusters without the client where all of a cluster
    take part in every round. Where they are drawn, rounds before its first were drawn with it.
    """

    course: Course
    name: str = "knot"
    guarantee: Guarantee = Guarantee.EXACT
    single: bool = False

    @property
    def rounds(self) -> int | None:
        """See ``Method``: the history of the training decides."""
        return None

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``.

        Raises:
            PolicyError: the training was not in clusters, or nobody stays.
        """
        if scene.tracks is None:
            raise PolicyError("knot needs a training in clusters", "training.clusters = 5")

        def watch(each: Round) -> None:
            scene.tell(Turn("unlearn", each.number, each.model, each.mean.loss))

        gone, models = frozenset(each.client for each in scene.leaving), []
        for number, track in scene.tracks:
            start, now = track.before(gone), track
            if start is not None:
                members = self._members(scene, scene.tracks.groups[number], gone)
                now = follow(scene.cohort, track, start, members, self.course, watch)
                scene.tracks.write(number, now)
            if now.last is not None:
                models.append(now.last)
        if not models:
            raise PolicyError("nobody stays in any cluster")
        return average(models)

    def _members(self, scene: Scene, group: tuple[str, ...], gone: frozenset[str]) -> list[Member]:
        """Those of a cluster who stay; whose rows all stay learns in the order of the training."""
        here = [each for each in scene.staying if each.client in group]
        return [each if each.client in gone else Member(each.client) for each in here]
