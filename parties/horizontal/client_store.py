"""A client's stored state: personal parameters per branch, and a record of purged rows.

The state is written before a reply is sent, so a crash cannot lose an update that the server has
counted. If the reply is lost, or the server is killed before it records the step, the server sends
the same task again: then the client starts again from the personal parameters before this task.
Therefore the state contains the parameters before the last tasks.

A restarted client continues with the stored state, so it does not use purged rows again, even if
the client's data still contains these rows. The name of a branch begins with the ID of the run, so
the client recognises the state of another run. The client deletes the state of another run, except
if the state lists purged rows: then the client raises an error, because a client without the state
would train on these rows again.
"""

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from torch import Tensor

from configs.federated import RequestBase
from parties.common.errors import StorageError
from parties.common.json_codec import Tensors
from parties.horizontal.engine.run_journal import federated_checkpoints
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind
from parties.horizontal.party import FederatedParty, save_model
from parties.horizontal.service.kept_model import (
    KeptModel,
    federated_models,
    read_kept_model,
    request_id,
    request_name,
)
from parties.session.checkpoint import BEFORE_TRAINING, CheckpointContent
from parties.session.store.model_store import VersionFacts
from protocol.errors import RemoteProtocolError

_RUN = re.compile("[0-9a-f]{32}")
_VALUE = "personal"  # name of the tensor of a branch
LARGEST_VERSION = 10**9
LAST_TASKS = 3  # of one client in a step: its forgotten and remaining rows, a check of conflicts


class ClientStore:
    """Executes the tasks of a client; a restarted client continues with the stored state.

    Args:
        party: the client.
        forgotten: requests of the agreement that were carried out with the kept model; their rows
            are deleted from memory at once.
        remember: called with the ID of a request and the IDs of its rows, before the client keeps a
            model without these rows.

    Raises:
        StorageError: the state of an unfinished run cannot be read.
        IntegrityError: the state of an unfinished run is damaged.
    """

    def __init__(
        self,
        party: FederatedParty,
        forgotten: Sequence[RequestBase] = (),
        remember: Callable[[str, Sequence[bytes]], None] = lambda *_: None,
    ) -> None:
        self._party, self._task = party, party.client_task(party)
        self._forgotten, self._remember = tuple(forgotten), remember
        self._gone: dict[str, list[bytes]] = {}  # IDs of the rows of each request, by its name
        for each in self._forgotten:
            self._task.select_request(each.name)
            self._delete(each.name)
        self.size = self._task.size
        self._files, self._number = federated_checkpoints(party), BEFORE_TRAINING
        self._run, self._request = "", ""
        self._purged: dict[str, list[str]] = {}
        # The last tasks that changed personal parameters, and the parameters before each task.
        self._before: list[tuple[str, Tensor | None]] = []
        self._take()

    def count_rows(self, listed: Container[bytes]) -> int:
        """Return the number of the client's training rows, or texts, with IDs in ``listed``."""
        return len({each for each in self._task.ids if each in listed})

    @property
    def has_request(self) -> bool:
        """Whether the server selected a request."""
        return bool(self._request)

    def evaluate(
        self, kind: RowKind, model: Tensor, parameters: ParameterSource = "personal"
    ) -> RowMetrics:
        """Return the metrics of a model, ``[d]``, on the client's rows of the kind ``kind``."""
        return self._task.evaluate(kind, model, parameters)

    def run_task(self, kind: RowKind, task: LocalTask, slots: Slots) -> LocalUpdate:
        """Execute a task and store new personal parameters; ``slots``: sent vectors, ``[d]``.

        A task that is repeated starts from the personal parameters before its first execution.
        """
        name = f"{self._task.branch}, {task.stream}, {task.aim}, {kind}"
        for place, (done, parameters) in enumerate(self._before):
            if done == name:
                self._task.personal, self._before = parameters, self._before[:place]
                break
        before = self._task.personal
        found = self._task.run_task(kind, task, slots)
        if self._task.personal is not before:
            self._before = [*self._before, (name, before)][-LAST_TASKS:]
            self._write()
        return found

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Use the personal parameters of a branch from now on.

        Raises:
            RemoteProtocolError: the name of the branch does not begin with the ID of a run.
            StorageError: this client purged rows in an unfinished run, but the server has started a
                new run.
        """
        run = branch.partition(" ")[0]
        if not _RUN.fullmatch(run):
            raise RemoteProtocolError(
                f"the server named the branch {branch!r:.80}; expected a name that begins with the "
                "ID of the run, 32 hexadecimal digits"
            )
        if self._run not in ("", run):
            self._begin_anew()
        self._run = run
        self._task.switch_branch(branch, parent)
        if any(each is not None for each in self._task.branches.values()):
            self._write()

    def select_request(self, name: str) -> bool:
        """Select the rows that a request names; return whether the request is in the agreement."""
        if not self._task.select_request(name):
            return False
        self._request = name
        if name in self._purged:
            self._task.clear_request()
        return True

    def purge(self) -> list[str]:
        """Delete the forgotten rows and the stored state that depends on them.

        A second call for the same request deletes nothing more. Only the personal parameters of the
        current branch are kept; the delivered model uses this branch. A client without remaining
        training rows keeps no personal parameters. If a restarted server requests the same purge
        again, branches created after the first purge are kept.

        Returns:
            A description of each deletion, for example ``12 rows``.
        """
        if not self._request:
            return []
        if self._request not in self._purged:
            self._remove()
        self._files.prune(self._number)
        return self._purged[self._request]

    def _remove(self) -> None:
        task = self._task
        gone = self._delete(self._request)
        self._purged[self._request] = [f"{gone} rows"] if gone else []
        if not task.has_rows:
            task.personal = None
        task.branches, self._before = {task.branch: task.personal}, []
        self._write()

    def _delete(self, request: str) -> int:
        """Delete the rows of the selected request, and return their number."""
        self._gone[request] = self._task.named_ids
        return self._task.purge()

    def deliver(self, model: Tensor) -> None:
        """Save the run's final model, ``[d]``, with the client's personal parameters.

        Raises:
            RemoteProtocolError: the server has not named a branch, so the client does not know the
                ID of the run.
        """
        if not _RUN.fullmatch(self._run):
            raise RemoteProtocolError(
                "the server sent the final model before it named the run that trained this model"
            )
        save_model(self._party, self._task.named_tensors(model), bytes.fromhex(self._run))

    def keep(self, number: int, facts: VersionFacts, model: Tensor) -> None:
        """Keep a model, ``[d]``, as the version ``number``, unless it is kept already.

        The version lists the requests after the run that this client has carried out.

        Raises:
            RemoteProtocolError: the version is not one of a training, in a training, or not one of
                requests that this client has carried out, in their session; or this client keeps
                another version with this or a larger number.
            StorageError: the version cannot be written.
        """
        store = federated_models(self._party)
        newest = store.newest_version()
        if newest is not None and (newest.number, newest.run) == (
            number,
            bytes.fromhex(self._run),
        ):
            self._files.clear()
            return
        named = {request_name(each) for each in facts.requests}
        done = self._purged.keys() | {each.name for each in self._forgotten}
        of_requests = facts.made_by == "requests"
        fits = of_requests is bool(named) is self._party.serves and named <= done
        if not fits or not 0 < number < LARGEST_VERSION:
            raise RemoteProtocolError(
                f"the server ordered to keep version {number} of {facts.made_by}, but this client "
                f"has not carried out {', '.join(facts.requests)[:200] or 'such a training'}"
            )
        if newest is not None and newest.number >= number:
            raise RemoteProtocolError(
                f"the server made version {number} of the model, but this client keeps version "
                f"{newest.number}",
                "restore the server's folder from a newer backup",
            )
        old = {each.name for each in self._forgotten}
        new = [
            each
            for each in self._party.agreement.unlearn
            if each.name in named and each.name not in old
        ]
        for name in old | named:
            self._remember(request_id(name), self._gone[name])
        before, kept = read_kept_model(self._party), KeptModel(model, 0, (*self._forgotten, *new))
        own = {
            "before": kept.digest if before is None else before.digest,
            "after": kept.digest,
            "older": store.contents(),
        }
        store.write(number, bytes.fromhex(self._run), kept.content(), replace(facts, own=own))
        self._files.clear()

    @property
    def has_rows(self) -> bool:
        """Whether this client has training rows."""
        return self._task.has_rows

    def clear(self) -> None:
        """Delete the stored state at the end of the run."""
        self._files.clear()

    def _take(self) -> None:
        """Load the state of an unfinished run, if there is one."""
        held = self._files.offer()
        if not held.numbers:
            return
        self._number = max(held.numbers)
        content = self._files.read(self._number)
        values, task = content.values, self._task
        self._run, task.branch = values["run"], values["branch"]
        branches: list[str] = values["branches"]
        task.branches = {name: self._unpacked(content.tensors.get(name)) for name in branches}
        task.personal = task.branches.get(task.branch)
        self._before = [
            (name, self._unpacked(content.tensors.get(_before(place))))
            for place, name in enumerate(values["before"])
        ]
        for name, purged in values["purged"]:
            self.select_request(name)
            self._delete(name)
            self._purged[name] = purged
        self._request = ""
        self._party.progress.note(f"resuming from checkpoint {self._number}")

    def _unpacked(self, stored: Tensors | None) -> Tensor | None:
        """The stored personal parameters, ``[d]``; None if none are stored."""
        return None if stored is None else self._task.unpack_personal(stored[_VALUE])

    def _write(self) -> None:
        task = self._task
        task.branches[task.branch] = task.personal
        values = {
            "run": self._run,
            "branch": task.branch,
            "branches": list(task.branches),
            "before": [name for name, _ in self._before],
            "purged": [[name, purged] for name, purged in self._purged.items()],
        }
        before = {_before(place): each for place, (_, each) in enumerate(self._before)}
        tensors = {
            name: {_VALUE: task.pack_personal(each)}
            for name, each in (task.branches | before).items()
            if each is not None
        }
        self._number += 1
        self._files.write(self._number, bytes(16), CheckpointContent(values, tensors))

    def _begin_anew(self) -> None:
        """Delete the state of another run; raises ``StorageError`` if rows were purged in it."""
        if self._purged:
            raise StorageError(
                f"{self._party.name} has purged rows in an unfinished run, but the server has "
                "started a new run",
                "start this client with --begin fresh if it may train on the purged rows again",
            )
        self._files.clear()
        self._number, self._task.personal, self._task.branches = BEFORE_TRAINING, None, {}
        self._before = []


def _before(place: int) -> str:
    """Name under which the parameters before one of the last tasks are stored."""
    return f"before task {place}"
