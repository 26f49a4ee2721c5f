"""A party's process that counts its boundaries, and kills itself with SIGKILL at one of them.

A boundary is a moment between two instructions at which a crash can leave a different state:

- before a message is sent, and after a message was received;
- before and after a new file replaces the old one (``write_atomically``: at the first of the two,
  the new content lies beside the old file), and after its last ``fsync``;
- before and after a file is deleted;
- before and after the commit of a transaction that changes the journal of requests.

The processes are forked from a server process that has loaded the libraries: an import takes
seconds.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from recorded_disk import record_own_calls

from parties.cli.main import main, party_main
from parties.requests.database import RequestDatabase
from parties.session.simulation import import_for_parties
from protocol.channel import Channel


@dataclass(frozen=True)
class Watch:
    """What a watched process does at its boundaries.

    Attributes:
        log: file that receives the name of every boundary, one a line.
        kill_at: number of the boundary, from 1, at which the process kills itself; None: never.
    """

    log: Path
    kill_at: int | None = None


@dataclass(frozen=True)
class Recording:
    """A process whose calls that change files are recorded.

    Attributes:
        log: file that receives the calls.
    """

    log: Path


def start_watched(
    arguments: Sequence[str],
    output: Path,
    watch: Watch | Recording | None = None,
    program: str = "vfl-party",
) -> BaseProcess:
    """Start ``vfl-party`` or ``vfl`` with ``arguments``; ``output`` receives its events.

    Only a ``Watch`` patches something.
    """
    context = get_context("forkserver")
    import_for_parties()
    process = context.Process(target=_run, args=(program, arguments, output, watch), daemon=True)
    process.start()
    return process


def _run(
    program: str, arguments: Sequence[str], output: Path, watch: Watch | Recording | None
) -> None:
    with output.open("ab") as events:
        os.dup2(events.fileno(), 1)
        os.dup2(events.fileno(), 2)
    if isinstance(watch, Recording):
        record_own_calls(watch.log)
    elif watch is not None:
        _Boundaries(watch).patch()
    sys.argv = [program, *arguments]
    {"vfl": main, "vfl-party": party_main}[program]()


class _Boundaries:
    """Counts the boundaries of this process."""

    def __init__(self, watch: Watch) -> None:
        self._log = watch.log.open("a", buffering=1)
        self._kill_at, self._count = watch.kill_at, 0

    def at(self, name: str) -> None:
        """Count one boundary; end the process if it is the chosen one."""
        self._count += 1
        self._log.write(name + "\n")
        if self._count == self._kill_at:
            self._log.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def patch(self) -> None:
        """Count messages, files and commits from now on."""
        self._patch_messages()
        self._patch_files()
        self._patch_journal()

    def _patch_messages(self) -> None:
        send, receive = Channel.send, Channel.receive

        def counted_send(channel: Channel, body: Any, *tensors: Any, **options: Any) -> None:
            self.at(f"before sending {type(body).__name__} to {channel.terms.peer}")
            send(channel, body, *tensors, **options)

        def counted_receive(channel: Channel, timeout: float) -> Any:
            message = receive(channel, timeout)
            self.at(f"after receiving {message.kind} from {channel.terms.peer}")
            return message

        Channel.send, Channel.receive = counted_send, counted_receive  # type: ignore[method-assign]

    def _patch_files(self) -> None:
        Path.replace = self._around(Path.replace, "writing")  # type: ignore[method-assign,assignment]
        unlink = self._around(Path.unlink, "deleting")

        def counted_unlink(path: Path, missing_ok: bool = False) -> None:
            if path.exists():
                unlink(path, missing_ok=missing_ok)
            elif not missing_ok:
                raise FileNotFoundError(path)

        Path.unlink = counted_unlink  # type: ignore[method-assign]

    def _around(self, change: Callable[..., Any], verb: str) -> Callable[..., Any]:
        def counted(path: Path, *rest: Any, **options: Any) -> Any:
            name = path.name.removeprefix(".").removesuffix(".tmp")
            self.at(f"before {verb} {name}")
            result = change(path, *rest, **options)
            self.at(f"after {verb} {name}")
            return result

        return counted

    def _patch_journal(self) -> None:
        transaction = RequestDatabase.transaction

        @contextmanager
        def counted(database: RequestDatabase) -> Iterator[None]:
            outermost, changes = not database._depth, database._connection.total_changes
            with transaction(database):
                yield
                changed = outermost and database._connection.total_changes > changes
                if changed:
                    self.at("before a commit of the journal")
            if changed:
                self.at("after a commit of the journal")

        RequestDatabase.transaction = counted  # type: ignore[method-assign,assignment]
