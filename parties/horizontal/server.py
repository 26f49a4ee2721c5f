"""Server program: training rounds, unlearning requests and the run's record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from torch import Tensor

from configs.federated import FederatedAgreement, RequestBase
from models.server_optimisers import optimiser_moments, restore_moments
from parties.common.errors import abort_reason
from parties.common.libraries import library_versions
from parties.horizontal.admission import Admission
from parties.horizontal.engine.aggregation import aggregation_claim
from parties.horizontal.engine.branches import Branches
from parties.horizontal.engine.clusters import (
    CLUSTERS,
    ClusterProgress,
    ClusterSnapshot,
    ClusterStore,
)
from parties.horizontal.engine.cohort import AbsentClientError, Cohort, Member, require_bounded
from parties.horizontal.engine.history import HISTORY, RoundStore
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.engine.rounds import NO_HISTORY, HistoryWriter, RoundResult, run_rounds
from parties.horizontal.engine.run_journal import (
    RunJournal,
    clear_stored_rounds,
    federated_checkpoints,
)
from parties.horizontal.engine.training_plan import ORIGINAL
from parties.horizontal.evaluation.outcome import Scores, client_scores
from parties.horizontal.party import FederatedParty, save_model
from parties.horizontal.requests import RequestRunner
from parties.horizontal.service.kept_model import KeptModel, facts_of_training, federated_models
from parties.horizontal.task import ServerTask
from parties.report.record import Request, RunFacts, Training, TrainingStep, run_record
from parties.requests.journal import journal_of
from parties.requests.lifecycle import largest_version
from parties.session import handshake
from protocol.errors import PeerSilent

Publish = Callable[[dict[str, Any]], None]
LIBRARIES = ("vfl", "torch", "numpy", "grpcio", "protobuf", "cryptography")
TRAINING = "training"  # name of the training in the journal


def run_server(
    party: FederatedParty,
    port: handshake.SpokePort,
    publish: Publish,
    task: ServerTask | None = None,
) -> dict[str, Any]:
    """Wait for the clients, train, carry out all requests and return the run's metrics.

    Args:
        party: the server.
        port: object that accepts the clients' connections.
        publish: function that writes the metrics; the server calls ``publish`` before clients may
            disconnect.
        task: the task of the run; None: the task is built once the clients are connected.

    Raises:
        PeerSilent: clients do not reply that a round or an order needs.
    """
    admission, agreement = Admission(party, port), party.agreement
    settings = cohort_settings(party)
    channels = admission.open()
    cohort = HubCohort(
        agreement.spokes, channels, admission.arrivals, settings, party.progress.warn
    )
    try:
        task = task or party.server_task(party)
        # A client keeps its personal parameters from before its last tasks only.
        each_step = task.has_personal
        checkpoints = federated_checkpoints(party)
        journal = RunJournal(party, checkpoints, admission.session, each_step=each_step)
        server = FederatedServer(party, cohort, journal, task)
        metrics = server.run()
        publish(metrics)
        cohort.deliver(server.delivered())
        if agreement.requests.keep == "model":
            keep_training(party, cohort, server)
        cohort.goodbye()
    except AbsentClientError as error:
        silent = PeerSilent(str(error), error.hint)
        cohort.abort(*abort_reason(silent))
        raise silent from error
    except Exception as error:
        cohort.abort(*abort_reason(error))
        raise
    finally:
        cohort.close()
    server.journal.clear()
    return metrics


def keep_training(party: FederatedParty, cohort: HubCohort, server: "FederatedServer") -> None:
    """Keep the model of a training at the server and at every client.

    Raises:
        PolicyError: a client is not connected.
        StorageError: the version cannot be written.
    """
    store = federated_models(party)
    model, run, newest = server.delivered(), server.journal.run, store.newest_version()
    with journal_of(party) as journal:
        made = 0 if journal is None else largest_version(journal.events(), party.name)
    number = max(store.next_number(), 1 + made)
    if newest is not None and newest.run == run:  # written before a crash
        number = newest.number
    else:
        kept = KeptModel(model, party.agreement.training.rounds)
        store.write(number, run, kept.content(), facts_of_training(party))
    cohort.keep(model, number, facts_of_training(party))
    party.progress.note(
        f"version {number} of the model is kept for requests to forget, encrypted; vfl models list "
        "shows it"
    )


def cohort_settings(party: FederatedParty) -> CohortSettings:
    """Return the settings of the server's communication with the clients."""
    agreement, sums = party.agreement, party.agreement.aggregation
    return CohortSettings(
        agreement.training.quorum,
        party.limits.idle_seconds,
        None if sums.kind == "none" else sums.min_contributors,
        party.entropy,
        sums.key_holders if sums.kind == "ckks" else None,
        party.limits.rejoin_seconds,
    )


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model."""

    model: Tensor  # the model, ``[d]``
    rounds: list[dict[str, Any]]  # for each round, its number, its loss and the absent members
    branch: str  # name of the branch that contains the clients' personal parameters for this model


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of an unfinished training."""

    model: Tensor  # the model after the last finished round, ``[d]``
    # For each finished round, its number, its loss and the absent members.
    rounds: list[dict[str, Any]] = field(default_factory=list)
    moments: dict[str, Tensor] = field(default_factory=dict)  # moments of the server optimiser
    # Name of the branch that contains the clients' personal parameters for this model.
    branch: str = ""
    # The snapshots of the cluster that is trained; empty without clusters.
    snapshots: tuple[ClusterSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingSpan:
    """A span of the training: the rounds between two requests."""

    first: int  # number of the first round
    last: int  # number of the last round plus one
    model: Tensor  # the model before the first round, ``[d]``
    members: Sequence[Member]  # clients that have training rows
    writer: HistoryWriter = NO_HISTORY  # object that stores the rounds in the history

    @property
    def name(self) -> str:
        """Name under which the journal records these training rounds."""
        return f"{TRAINING} from {self.first}" if self.first else TRAINING


class FederatedServer:
    """The server of a run, with its clients and its journal.

    Args:
        party: the server.
        cohort: the server's clients.
        journal: the journal of the run.
        task: the task of the run; None: the constructor builds the task.
    """

    def __init__(
        self,
        party: FederatedParty,
        cohort: Cohort,
        journal: RunJournal,
        task: ServerTask | None = None,
    ) -> None:
        self._party, self.journal = party, journal
        self._agreement, self._task = party.agreement, task or party.server_task(party)
        self._cohort = cohort = self._task.wrap_cohort(cohort)
        self._delivered: Tensor | None = None
        self._branches = Branches(cohort, journal)
        self._requests = RequestRunner(party, cohort, journal, self._branches, self._task)

    def run(self) -> dict[str, Any]:
        """Train, carry out each request after the agreed round, and return the metrics."""
        began, requests = self._party.now(), list[Request]()
        model, rounds = self._task.initial_model(ORIGINAL), list[dict[str, Any]]()
        members, begin = [Member(name) for name in self._agreement.spokes], 0
        for end, due in requests_by_round(self._agreement):
            if end > begin:
                span = TrainingSpan(begin, end, model, members, self._history())
                model = self._train(span, rounds)
                begin = end
            for request in due:
                model, remaining, record = self._requests.carry_out(request, model, end)
                members = [Member(each.client) for each in remaining]
                requests.append(record)
        clear_stored_rounds(self._party.state)
        self._delivered = model
        accuracy = None if requests else self._test_accuracy(model)
        steps = [
            TrainingStep(number=each["round"] + 1, loss=each["loss"], absent=tuple(each["absent"]))
            for each in rounds
        ]
        training = Training(unit="round", steps=tuple(steps), stream=ORIGINAL)
        traffic = self._party.traffic
        facts = federated_run_facts(self._party, self._task, self.journal.run, began, accuracy)
        return run_record(facts, training, requests, traffic).plain()

    def delivered(self) -> Tensor:
        """Write the run's final model and return it, ``[d]``.

        Raises:
            LookupError: ``run`` was not called before.
        """
        if self._delivered is None:
            raise LookupError("delivered() was called before run(); call run() first")
        save_model(self._party, self._task.named_tensors(self._delivered), self.journal.run)
        return self._delivered

    def _test_accuracy(self, model: Tensor) -> float | None:
        """The accuracy of a run without requests; requests have figures of every model."""

        def work() -> Scores:
            return self._task.evaluate_trained(self._cohort, model)

        scores = self.journal.once("trained model", Scores, work)
        test = client_scores(scores.get("test", {}))
        return (
            sum(each.correct for each in test) / sum(each.rows for each in test) if test else None
        )

    def _train(self, span: TrainingSpan, rounds: list[dict[str, Any]]) -> Tensor:
        def work() -> TrainedModel:
            branch = self._branches.start(span.name, self._branches.current or None)
            trained = train_rounds(
                self._party, self._task, self._cohort, self.journal, span, branch
            )
            require_bounded(trained.model, self._agreement.limits.magnitude)
            return trained

        trained = self.journal.once(span.name, TrainedModel, work)
        self._branches.adopt(trained.branch)
        rounds += trained.rounds
        return trained.model

    def _history(self) -> RoundStore:
        return RoundStore(self._party.state / HISTORY, self._task.history_every)


def federated_run_facts(
    party: FederatedParty,
    task: ServerTask,
    run: bytes,
    began: datetime,
    test_accuracy: float | None = None,
) -> RunFacts:
    """Return what the record of a run that ends now states about the run.

    Args:
        party: the server.
        task: the task of the run.
        run: ID of the run, 16 bytes.
        began: when the run began.
        test_accuracy: accuracy of the trained model on test rows; None if it was not measured.
    """
    agreement = party.agreement
    facts = {
        "federation": agreement.federation,
        "mode": agreement.mode,
        "clients": len(agreement.spokes),
        "parameters": task.initial_model(ORIGINAL).numel(),
        "aggregation": aggregation_claim(agreement),
        "rule": agreement.training.rule.kind,
        "share": agreement.training.share,
        "seed": agreement.seed,
        "test_accuracy": test_accuracy,
        "session": run.hex(),
        "agreement": party.digest.hex(),
        "settings": agreement.canonical(),
        "began": began,
        "ended": party.now(),
        "seconds": party.traffic.elapsed,
        "software": library_versions((*LIBRARIES, *task.libraries)),
        **task.run_facts(),
    }
    return RunFacts(**facts)


def requests_by_round(agreement: FederatedAgreement) -> list[tuple[int, list[RequestBase]]]:
    """Return each number of training rounds after which requests are due, with these requests.

    The last pair contains the number of rounds of the whole training, even without requests.
    """
    last, when = agreement.training.rounds, dict[int, list[RequestBase]]()
    for each in agreement.unlearn:
        when.setdefault(getattr(each, "round", None) or last, []).append(each)
    return sorted({last: list[RequestBase](), **when}.items())


def train_rounds(
    party: FederatedParty,
    task: ServerTask,
    cohort: Cohort,
    journal: RunJournal,
    span: TrainingSpan,
    branch: str,
) -> TrainedModel:
    """Train the rounds of ``span``; with separate clusters, average the models of all clusters."""
    progress, groups, name = party.progress, task.clusters, f"{span.name}, rounds"
    begun = journal.recorded(name, TrainingProgress) or TrainingProgress(span.model, branch=branch)
    if begun.branch != branch:
        cohort.switch_branch(begun.branch, None)
    round_plan, rounds = task.training_plan(ORIGINAL), list(begun.rounds)
    rule = restore_moments(round_plan.rule, begun.moments)
    progress.phase(TRAINING, (span.last - span.first) * max(1, len(groups)) - len(rounds))

    def watch(each: RoundResult, snapshots: tuple[ClusterSnapshot, ...] = ()) -> None:
        progress.step()
        absent = [str(member) for member in each.mean.absent]
        rounds.append({"round": each.number, "loss": each.mean.loss, "absent": absent})
        progress.measured(TRAINING, len(rounds), {"loss": each.mean.loss, "absent": len(absent)})
        moments = optimiser_moments(each.rule)
        now = TrainingProgress(each.model, list(rounds), moments, begun.branch, snapshots)
        journal.record(name, now)

    if groups:
        clusters = ClusterStore(party.state / CLUSTERS, groups)
        done = ClusterProgress(begun.model, len(rounds), begun.snapshots)
        model = clusters.train(cohort, span.model, round_plan, watch, done)
        return TrainedModel(model, rounds, begun.branch)
    rest = replace(round_plan, first=span.first + len(rounds), rounds=span.last, rule=rule)
    model = run_rounds(cohort, begun.model, span.members, rest, watch, span.writer)
    return TrainedModel(model, rounds, begun.branch)
