"""Figures: clients killed with SIGKILL during a round, and the model of that round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic, sleep

import torch
from bench.ledger import Row, shown
from client_processes import SERVER, ClientProcesses
from kills import Running
from local_cohort import LocalCohort
from torch import Tensor

from parties.horizontal.admission import Admission
from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.engine.rounds import RoundResult, run_rounds
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network, initial_parameters
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.setup import StartOptions

KILLS = 10
PATIENCE = 120.0  # seconds for a client to reconnect, also on a loaded machine
SETTINGS = "training = { epochs = 40, batch = 16, learning_rate = 0.02, quorum = 0.6 }"


def client_kills(report: Callable[[str], None]) -> Iterator[Row]:
    """Kill each client in turn; each one reconnects before the next kill."""
    exact = missing = reconnected = 0
    with TemporaryDirectory() as name:
        wood = ClientProcesses(Path(name), SETTINGS)
        with _rounds(wood) as (rounds, running):
            round_seconds = min(rounds.one().seconds for _ in range(3))
            for number in range(KILLS):
                victim = wood.clients[number % len(wood.clients)]
                report(f"client kills: {number + 1} of {KILLS}, {victim}")
                timer = Timer(
                    Random(number).uniform(0.0, round_seconds), running[victim].process.kill
                )
                timer.start()
                outcome = rounds.one()
                timer.join()
                running[victim].process.wait()
                exact += outcome.exact and set(outcome.absent) <= {victim}
                missing += victim in outcome.absent
                running[victim] = wood.start(victim)
                reconnected += rounds.complete()
    title = f"horizontal: of {KILLS} kills -9 of a client at a random moment of a round over mTLS"
    measure = "rounds that went on, named nobody but the killed one, and whose model is bit for bit"
    yield Row(f"{title}, {measure} that of those who answered", exact, "", f"{KILLS}",
              exact == KILLS)  # fmt: skip
    yield shown(f"{title}, rounds that lost its contribution", missing, "")
    yield Row(f"{title}, times that it came back and took part again, bit for bit", reconnected, "",
              f"{KILLS}", reconnected == KILLS)  # fmt: skip


@dataclass(frozen=True)
class _RoundOutcome:
    """Result of one round."""

    seconds: float
    absent: list[str]
    exact: bool  # the model equals the mean of the other clients, bit for bit


class _Rounds:
    """Rounds of a server, each compared with the same clients in this process."""

    def __init__(
        self, wood: ClientProcesses, cohort: HubCohort, client_tasks: dict[str, NetworkClientTask]
    ) -> None:
        self._agreement, self._cohort, self._client_tasks = (
            wood.config.agreement,
            cohort,
            client_tasks,
        )
        self._model, self._number = initial_parameters(self._agreement, "original"), 0
        self._members = [Member(name) for name in self._agreement.spokes]

    def one(self) -> _RoundOutcome:
        """Run the next round."""
        started, means = monotonic(), list[MeanUpdate]()
        after = self._after(self._cohort, means)
        seconds, absent = monotonic() - started, [each.client for each in means[0].absent]
        local = LocalCohort(self._client_tasks, 0.0, lambda member, _: member.client not in absent)
        expected = self._after(local, [])
        exact = torch.equal(after, expected)
        self._model, self._number = after, self._number + 1
        return _RoundOutcome(seconds, absent, exact)

    def complete(self) -> bool:
        """Run a round with all clients; return whether all took part and the model is exact."""
        names = self._agreement.spokes
        deadline = monotonic() + PATIENCE
        while len(self._cohort.evaluate(names, "test", self._model)) < len(names):
            if monotonic() > deadline:
                return False
            sleep(0.2)
        outcome = self.one()
        return outcome.exact and not outcome.absent

    def _after(self, cohort: Cohort, means: list[MeanUpdate]) -> Tensor:
        """Return the model after the next round."""
        round_plan = network_training_plan(self._agreement, "original")
        round_plan = replace(round_plan, first=self._number, rounds=self._number + 1)

        def watch(each: RoundResult) -> None:
            means.append(each.mean)

        return run_rounds(cohort, self._model, self._members, round_plan, watch)


@contextmanager
def _rounds(wood: ClientProcesses) -> Iterator[tuple[_Rounds, dict[str, Running]]]:
    """Yield a server with all clients connected, and the processes of the clients."""
    config = wood.config
    start_options, names = StartOptions(wood.out, None, wood.keys), wood.clients
    server = set_up_horizontal_party(config, SERVER, start_options, lambda _: None)
    network = build_whole_network(config.agreement, "shape")
    client_tasks = {}
    for name in names:
        options = replace(start_options, out=wood.folder / "apart")
        client = set_up_horizontal_party(config, name, options, lambda _: None)
        client_tasks[name] = NetworkClientTask(
            name, network, client.client_data, config.agreement.seed
        )
    with listen_for_clients(server, wood.address) as port, wood.all(*names) as running:
        admission = Admission(server, port)
        cohort_settings = CohortSettings(
            config.agreement.training.quorum, config.agreement.limits.idle_seconds
        )
        cohort = HubCohort(
            names, admission.open(), admission.arrivals, cohort_settings, lambda _: None
        )
        try:
            yield _Rounds(wood, cohort, client_tasks), running
            cohort.goodbye()
        finally:
            cohort.close()
