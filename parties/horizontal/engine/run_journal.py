"""The server's journal of a run: steps that finished before a crash are not repeated."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TypeVar

from configs.config_file import canonical_agreement
from configs.federated import FederatedAgreement
from parties.horizontal.engine.clusters import CLUSTERS, ClusterStore
from parties.horizontal.engine.history import HISTORY, RoundStore
from parties.horizontal.engine.party import FederatedContext
from parties.session.checkpoint import BEFORE_TRAINING, CheckpointContent, Checkpoints
from parties.session.journal import Journal, recorded_value
from parties.session.setup import Begin

T = TypeVar("T")


class RunJournal:
    """Results of finished steps and the latest progress of unfinished steps, in checkpoints.

    Args:
        party: the server.
        checkpoints: the server's checkpoints.
        run: ID of this start of the server, and of the run if no checkpoint exists, 16 bytes.
        each_step: whether a checkpoint is written after each step, not at time intervals.

    Attributes:
        run: ID of the run, 16 bytes; a restart after a crash keeps this ID.
        start: ID of this start of the server, 16 bytes; every start has a new ID.
    """

    def __init__(
        self,
        party: FederatedContext,
        checkpoints: Checkpoints,
        run: bytes,
        *,
        each_step: bool = False,
    ) -> None:
        self._party, self._checkpoints, self._each_step = party, checkpoints, each_step
        held = checkpoints.offer()
        self._number = max(held.numbers, default=BEFORE_TRAINING)
        self.run = held.run if held.numbers else run
        self.start = run
        self._journal = Journal()
        self._latest: tuple[str, object] | None = None  # progress that is not in the journal yet
        if held.numbers:
            content = checkpoints.read(self._number)
            self._journal = Journal.read(content)
            party.traffic.restore(content.values["traffic"])
            party.progress.note(f"resuming from checkpoint {self._number}")
        self._saved = monotonic()

    def once(self, name: str, kind: type[T], work: Callable[[], T]) -> T:
        """Return the recorded result of the step ``name``.

        If no result is recorded, run ``work``, which executes the step, and record its result.

        A checkpoint is written at time intervals, not after each call.
        """
        self._add_latest()
        entry = self._journal.replay(name)
        if entry is not None:
            return recorded_value(entry, kind)
        value = self._journal.record(name, work, lambda: False)
        self._latest = None
        if self._due():
            self.save()
        return value

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the recorded progress of the unfinished step ``name``; None if none is recorded.

        The progress is part of a step for which ``once`` is called; the result of this step
        replaces the progress.
        """
        self._add_latest()
        entry = self._journal.begin(name)
        return None if entry is None else recorded_value(entry, kind)

    def record(self, name: str, value: object) -> None:
        """Record the progress of an unfinished step, in place of its earlier progress.

        A checkpoint is written at time intervals. ``value`` must not change after this call.
        """
        self._latest = name, value
        if self._due():
            self.save()

    def flush(self) -> None:
        """Write a checkpoint if some results are not in a checkpoint yet."""
        if self._journal.has_new_entries:
            self.save()

    def save(self) -> None:
        """Write a checkpoint with all results and the progress of the unfinished step."""
        self._add_latest()
        self._number += 1
        entries = self._journal.entries
        values = {
            "journal": [[each.name, each.value, each.diverged] for each in entries],
            "traffic": self._party.traffic.to_json(),
        }
        tensors = {f"entry {place}": each.tensors for place, each in enumerate(entries)}
        self._checkpoints.write(self._number, self.run, CheckpointContent(values, tensors))
        self._saved, self._journal.has_new_entries = monotonic(), False

    def clear(self) -> None:
        """Delete all checkpoints at the end of the run."""
        self._checkpoints.clear()

    def _add_latest(self) -> None:
        """Add the latest progress to the journal; only then its tensors are copied."""
        if self._latest is not None:
            name, value = self._latest
            self._latest = None
            self._journal.update(name, value, diverged=False)

    def _due(self) -> bool:
        seconds = self._party.agreement.limits.checkpoint_seconds
        return self._each_step or monotonic() - self._saved >= seconds


def prepare_federated_run(party: FederatedContext, begin: Begin) -> None:
    """Prepare the checkpoints for the start that ``begin`` requests.

    A fresh start deletes the checkpoints and the stored rounds of an unfinished run. To resume, the
    server must have a checkpoint. This function must be called before the server waits for clients.

    Raises:
        StorageError: ``begin`` requires a checkpoint, and the server has none.
    """
    if begin is Begin.FRESH:
        federated_checkpoints(party).clear()
        clear_stored_rounds(party.state)
    elif begin is Begin.RESUME and party.name == party.agreement.hub:
        federated_checkpoints(party).require()


def clear_stored_rounds(state: Path) -> None:
    """Delete the updates of single clients, and of clusters, from a server's folder."""
    RoundStore(state / HISTORY, 0).clear()
    ClusterStore(state / CLUSTERS, ()).clear()


def federated_checkpoints(party: FederatedContext) -> Checkpoints:
    """Return the store of a party's checkpoints."""
    bare = {n: each.model_copy(update={"pins": ()}) for n, each in party.agreement.parties.items()}
    plan = party.agreement.model_copy(update={"parties": bare})
    if party.serves:
        plan = _without_comparison(plan)
    # Requests after the run leave an interrupted training as it is.
    folder = party.state / ("request-checkpoints" if party.serves else "checkpoints")
    return Checkpoints(folder, party=party.name, agreement=canonical_agreement(plan), data="")


def _without_comparison(agreement: FederatedAgreement) -> FederatedAgreement:
    """The agreement without the comparison of requests with Retrains.

    The parties can agree on another audit while a request is being compared: its model is the same
    with and without a comparison.
    """
    requests, plan = agreement.requests, agreement.unlearning  # type: ignore[attr-defined]
    if requests.audit == "full":
        requests = requests.model_copy(update={"audit": "quick"})
    unlearning = plan.model_copy(update={"retrains": 0})
    return agreement.model_copy(update={"requests": requests, "unlearning": unlearning})
