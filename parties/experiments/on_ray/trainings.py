"""Trainings of a search over settings on all nodes of a Ray cluster at once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from parties.common.atomic_file import write_atomically
from parties.common.errors import PartyError
from parties.common.progress import ProgressListener
from parties.data.holding import Holding
from parties.experiments.on_ray.tasks import RayTasks
from parties.experiments.tune import Trained
from parties.report import METRICS
from parties.report.record import read_record
from parties.session.simulation import SimulationPlan
from protocol.errors import ProtocolError

Run: TypeAlias = Callable[[SimulationPlan, ProgressListener, Mapping[str, Holding]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ShippedTraining:
    """What another machine needs for a training: the plan, its config file, and the data."""

    plan: SimulationPlan
    text: str  # of the config file
    holdings: Mapping[str, Holding]  # by party
    run: Run  # trains with data that were read earlier, and returns the record

    def train(self, changes: Sequence[str]) -> dict[str, Any] | PartyError | ProtocolError:
        """Train with further changes of the settings; return the record, or why it failed."""
        with TemporaryDirectory() as name:
            folder = Path(name)
            config = folder / self.plan.config.name
            config.write_text(self.text)
            every = (*self.plan.changes, *changes)
            plan = replace(self.plan, config=config, changes=every, out=folder / "runs", data=None)
            try:
                return self.run(plan, lambda _: None, self.holdings)
            except (PartyError, ProtocolError) as error:
                return error


def train_on_ray(
    tasks: RayTasks, run: ShippedTraining, jobs: Sequence[tuple[Sequence[str], Path]]
) -> Iterator[Trained]:
    """Train on all nodes of a Ray cluster at once; this process writes the records."""
    shared = tasks.share(run)
    for number, found in tasks.run(ShippedTraining.train, [(shared, each) for each, _ in jobs]):
        if isinstance(found, dict):
            place = jobs[number][1] / read_record(found).run.federation
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / METRICS, json.dumps(found).encode())
        yield number, found
