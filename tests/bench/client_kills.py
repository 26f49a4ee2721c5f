"""Figures: clients killed with SIGKILL in the middle of a round, and what the round ends with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic, sleep

import torch
from client_processes import SERVER, Wood
from kills import Running
from ledger import Row, shown
from local_cohort import LocalCohort
from torch import Tensor

from parties.horizontal.admission import Admission
from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.engine.rounds import RoundResult, run_rounds
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network, initial_parameters
from parties.horizontal.registry import network_training_plan
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.setup import StartOptions

KILLS = 10
PATIENCE = 120.0  # seconds for a client to come back, however loaded the machine is
SETTINGS = "training = { epochs = 40, batch = 16, learning_rate = 0.02, quorum = 0.6 }"


def client_kills(tell: Callable[[str], None]) -> Iterator[Row]:
    """Every client in turn; its place is taken again before the next one is killed."""
    sound = missing = back = 0
    with TemporaryDirectory() as name:
        wood = Wood(Path(name), SETTINGS)
        with _rounds(wood) as (rounds, running):
            usual = min(rounds.one().seconds for _ in range(3))
            for number in range(KILLS):
                victim = wood.clients[number % len(wood.clients)]
                tell(f"client kills: {number + 1} of {KILLS}, {victim}")
                timer = Timer(Random(number).uniform(0.0, usual), running[victim].process.kill)
                timer.start()
                told = rounds.one()
                timer.join()
                running[victim].process.wait()
                sound += told.sound and set(told.absent) <= {victim}
                missing += victim in told.absent
                running[victim] = wood.start(victim)
                back += rounds.full()
    title = f"horizontal: of {KILLS} kills -9 of a client at a random moment of a round over mTLS"
    kept = "rounds that went on, named nobody but the killed one, and whose model is bit for bit"
    yield Row(f"{title}, {kept} that of those who answered", sound, "", f"{KILLS}",
              sound == KILLS)  # fmt: skip
    yield shown(f"{title}, rounds that lost its contribution", missing, "")
    yield Row(f"{title}, times that it came back and took part again, bit for bit", back, "",
              f"{KILLS}", back == KILLS)  # fmt: skip


@dataclass(frozen=True)
class _Told:
    """How one round went."""

    seconds: float
    absent: list[str]
    sound: bool  # the model is that of the others' contributions, bit for bit


class _Rounds:
    """A server's rounds in this process, each compared with the same clients in one process."""

    def __init__(self, wood: Wood, cohort: HubCohort, own: dict[str, NetworkClientTask]) -> None:
        self._agreement, self._cohort, self._own = wood.config.agreement, cohort, own
        self._model, self._number = initial_parameters(self._agreement, "original"), 0
        self._members = [Member(name) for name in self._agreement.spokes]

    def one(self) -> _Told:
        """The next round."""
        began, means = monotonic(), list[MeanUpdate]()
        after = self._after(self._cohort, means)
        seconds, absent = monotonic() - began, [each.client for each in means[0].absent]
        alone = LocalCohort(self._own, 0.0, lambda member, _: member.client not in absent)
        wanted = self._after(alone, [])
        sound = torch.equal(after, wanted)
        self._model, self._number = after, self._number + 1
        return _Told(seconds, absent, sound)

    def full(self) -> bool:
        """A round once everybody is back; whether all took part, and it was what it must be."""
        names = self._agreement.spokes
        deadline = monotonic() + PATIENCE
        while len(self._cohort.evaluate(names, "test", self._model)) < len(names):
            if monotonic() > deadline:
                return False
            sleep(0.2)
        told = self.one()
        return told.sound and not told.absent

    def _after(self, cohort: Cohort, means: list[MeanUpdate]) -> Tensor:
        """The model after the round that is next."""
        round_plan = network_training_plan(self._agreement, "original")
        round_plan = replace(round_plan, first=self._number, rounds=self._number + 1)

        def watch(each: RoundResult) -> None:
            means.append(each.mean)

        return run_rounds(cohort, self._model, self._members, round_plan, watch)


@contextmanager
def _rounds(wood: Wood) -> Iterator[tuple[_Rounds, dict[str, Running]]]:
    """A server that all clients have joined, and the clients."""
    config = wood.config
    place, names = StartOptions(wood.out, None, wood.keys), wood.clients
    party = set_up_horizontal_party(config, SERVER, place, lambda _: None)
    network = build_whole_network(config.agreement, "shape")
    own = {}
    for name in names:
        apart = replace(place, out=wood.folder / "apart")
        settings = set_up_horizontal_party(config, name, apart, lambda _: None)
        own[name] = NetworkClientTask(name, network, settings.shelf, config.agreement.seed)
    with listen_for_clients(party, wood.address) as port, wood.all(*names) as running:
        door = Admission(party, port)
        manner = CohortSettings(
            config.agreement.training.quorum, config.agreement.limits.idle_seconds
        )
        cohort = HubCohort(names, door.open(), door.arrivals, manner, lambda _: None)
        try:
            yield _Rounds(wood, cohort, own), running
            cohort.goodbye()
        finally:
            cohort.close()
