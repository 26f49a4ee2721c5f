"""The requests of one party without a network: what ``vfl unlearn`` reads and writes.

A process that serves may use the same files at the same time. A start is not counted, because no
session begins.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from parties.common.errors import StorageError
from parties.common.progress import ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.requests.duties import RequestDesk
from parties.requests.persons import RequestPolicy
from parties.requests.subjects import ForgottenList, SubjectStore
from parties.session.identity import load_identity
from parties.session.party import PartyContext, StartedParty
from parties.session.setup import StartOptions
from parties.session.store.sealing import read_master_key


@dataclass(frozen=True, slots=True)
class LocalDesk:
    """The journal of one party, its private lists and its policy."""

    party: PartyContext
    desk: RequestDesk
    policy: RequestPolicy
    subjects: SubjectStore
    forgotten: ForgottenList


def offline_party(config: Any, name: str, options: StartOptions) -> StartedParty:
    """Return the part of a party that is the same in all modes; it takes part in no session.

    Args:
        config: agreement and party settings, of any mode.
        name: name of the party.
        options: folders and the file of the master key.

    Raises:
        IdentityError: a certificate is missing or invalid.
        StorageError: the party's folder is absent.
    """
    identity = load_identity(config, name, options.certificates, datetime.now(UTC))
    state = options.out / config.agreement.federation / name
    if not state.is_dir():
        raise StorageError(
            f"the folder {state} of party {name} does not exist",
            "train first, or name the folder of the runs with --out",
        )
    progress = ProgressReporter(name, lambda _: None)
    return StartedParty(
        name=name,
        keyring=identity.keyring,
        trust=identity.trust,
        state=state,
        incarnation=0,
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        progress=progress,
        traffic=TrafficCounter(progress.add_bytes),
        master_key=read_master_key(options.master_key),
    )


@contextmanager
def local_desk_of(
    party: PartyContext, desk: RequestDesk, policy: RequestPolicy, *, attends: bool = True
) -> Iterator[LocalDesk]:
    """Use a desk in a ``with`` block, and close it; with ``attends``, do the party's duties first.

    Raises:
        IntegrityError: the journal or the key file is damaged.
    """
    with closing(desk):
        if attends:
            desk.attend()
        subjects = SubjectStore(desk.journal, party.keys)
        forgotten = ForgottenList(desk.journal.database, party.keys)
        yield LocalDesk(party, desk, policy, subjects, forgotten)
