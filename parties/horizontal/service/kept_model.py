"""The kept model of a run with a server: what each party stores, and what it must not use again.

Every party keeps the whole shared model. A client also keeps the list of the requests that it has
carried out; its data may still contain their rows, so it deletes them from memory at each start.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeVar

from torch import Tensor

from configs.federated import FederatedAgreement, RequestBase
from parties.common.errors import PolicyError, StorageError
from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.party import FederatedParty
from parties.requests.events import StatedBody, event_time
from parties.requests.journal import RequestJournal
from parties.requests.lifecycle import RequestView
from parties.requests.subjects import ForgottenList, SubjectStore, named_ids
from parties.session.checkpoint import CheckpointContent
from parties.session.store.model_store import ModelStore, VersionFacts, model_store

_MODEL = "model"  # group and name of the tensor of the model
P = TypeVar("P", bound=FederatedParty)


@dataclass(frozen=True, slots=True)
class KeptModel:
    """The content of a version.

    Attributes:
        model: the shared model, ``[d]``.
        rounds: number of training rounds.
        forgotten: the requests that were carried out, in this order.
    """

    model: Tensor
    rounds: int
    forgotten: tuple[RequestBase, ...] = ()

    def content(self) -> CheckpointContent:
        """Return what is stored."""
        values = {
            "rounds": self.rounds,
            "forgotten": [_request_values(each) for each in self.forgotten],
        }
        return CheckpointContent(values, {_MODEL: {_MODEL: self.model}})

    @property
    def digest(self) -> str:
        """SHA-256 of the model, 64 hexadecimal digits."""
        return model_digest(self.model)


def model_digest(model: Tensor) -> str:
    """Return the SHA-256 of the bytes of a model, ``[d]``: 64 hexadecimal digits."""
    return sha256(model.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def federated_models(party: FederatedContext) -> ModelStore:
    """The store of a party's kept models."""
    return model_store(party.state, party.name, party.agreement, party.keys)


def read_kept_model(party: FederatedContext) -> KeptModel | None:
    """Return the newest kept model of a party; None if it keeps none.

    Raises:
        StorageError: the model was trained with another agreement.
        IntegrityError: a file cannot be read.
    """
    store = federated_models(party)
    newest = store.newest_version()
    if newest is None:
        return None
    store.offer()  # checks the architecture
    content = store.read(newest.number)
    forgotten = tuple(
        _stored_request(party.agreement, each) for each in content.values["forgotten"]
    )
    return KeptModel(content.tensors[_MODEL][_MODEL], content.values["rounds"], forgotten)


def request_name(request: str) -> str:
    """Return the name of a journaled request, given its ID, as the agreement names requests."""
    return f"r{request.lower()}"


def request_id(name: str) -> str:
    """Return the ID of the journaled request that ``request_name`` named."""
    return name.removeprefix("r").upper()


def forgotten_requests(
    party: FederatedContext, views: Iterable[RequestView]
) -> tuple[RequestBase, ...]:
    """Return the requests that were carried out, in this order: by the version and the journal.

    A version that was restored from a backup may lack some that the journal has.
    """
    kept = read_kept_model(party)
    found = () if kept is None else kept.forgotten
    known = {each.name for each in found}
    done = [view for view in views if view.version_after is not None]
    done.sort(key=lambda view: (view.version_after or 0, view.id))
    lacking = [view for view in done if request_name(view.id) not in known]
    return (*found, *(request_of(party.agreement, view) for view in lacking))


def request_of(agreement: FederatedAgreement, view: RequestView) -> RequestBase:
    """Return the request of a journal in the form of the agreement's requests.

    Raises:
        PolicyError: the request is not one of this mode.
    """
    content = view.content
    known = getattr(getattr(agreement, "labels", None), "classes", ())
    other = content.by_training or content.kind in ("rows", "correction")
    if other or not {*content.classes} <= {*known}:
        raise PolicyError(
            f"the request {view.id} names {content.kind} {', '.join(content.classes)[:100]}, which "
            f"a run in the {agreement.mode} mode does not have",
            "reject it with vfl unlearn reject",
        )
    if content.has_list:
        return agreement.listed_request(request_name(view.id), view.origin)
    return agreement.request(
        name=request_name(view.id),
        client=view.origin if content.kind == "client" else None,
        classes=content.classes,
        fraction=float(content.fraction),
        seed=content.seed,
    )


def facts_of_training(party: FederatedContext) -> VersionFacts:
    """Return the facts of a version that a training made."""
    return VersionFacts("training", event_time(party.now()))


def listed_rows(
    party: FederatedContext,
    requests: Iterable[RequestBase],
    journal: RequestJournal | None,
) -> dict[str, Container[bytes]]:
    """Return the IDs of the rows that requests name at this client, by request name.

    The IDs of a request by list are in the private record of the client. The rows of a request that
    was carried out are on the client's list of forgotten IDs, so that they are recognised after the
    client's file has changed; IDs that the client has accepted again are absent. Other requests are
    absent: their rows are selected by class and fraction.

    Raises:
        StorageError: the client has no record of a request by list.
    """
    known = None if journal is None else _KnownRows(party, journal)
    found = dict[str, Container[bytes]]()
    for each in requests:
        if each.client not in (None, party.name):
            continue
        ids = None if known is None else known.of(each)
        if ids is not None:
            found[each.name] = ids
        elif each.has_list:
            raise StorageError(
                f"{party.name} has no record of the rows of its request {request_id(each.name)}",
                "give the same list to vfl unlearn request again, or restore a newer backup",
            )
    return found


class _KnownRows:
    """The IDs of the rows of requests that a client knows: its records, its forgotten list."""

    def __init__(self, party: FederatedContext, journal: RequestJournal) -> None:
        self._subjects = SubjectStore(journal, party.keys)
        self._forgotten = ForgottenList(journal.database, party.keys)
        self._stated = {
            each.request
            for each in journal.events()
            if each.origin == party.name and isinstance(each.body, StatedBody)
        }

    def of(self, request: RequestBase) -> Container[bytes] | None:
        """The IDs of a request, without readmitted ones; None if the client knows none.

        The list of a request that is to be carried out may name readmitted IDs: they are forgotten
        again.
        """
        name = request_id(request.name)
        if not request.has_list:
            return self._forgotten.of(name)
        found = named_ids(name, self._subjects, self._forgotten)
        if isinstance(found, frozenset) and name in self._stated:
            ids = [*found]
            return found - {ids[at] for at in self._forgotten.readmitted_among(ids)}
        return found


def with_requests(
    party: P,
    requests: Sequence[RequestBase],
    listed: Mapping[str, Container[bytes]] = MappingProxyType({}),
    *,
    compares: bool = False,
) -> P:
    """Return a party whose agreement has these requests, which were raised after the training.

    Only the chosen method runs, and the agreed number of Retrains if the model is compared with
    them. They run on a copy of the rows: the given party keeps all its rows, because the next
    requests are selected from all rows again, in the same order. The result is for local work: the
    parties of a session compare the digest of the agreement without these requests.

    Args:
        party: the party.
        requests: the requests.
        listed: at a client, the rows that requests name by ID, see ``listed_rows``.
        compares: whether the model is compared with Retrains.
    """
    plan = party.agreement.unlearning  # type: ignore[attr-defined]
    alone: dict[str, Any] = {"compare": (), "variants": ()}
    if not compares:
        alone["retrains"] = 0
    changes: dict[str, Any] = {
        "unlearn": tuple(requests),
        "unlearning": plan.model_copy(update=alone),
    }
    agreement: FederatedAgreement = party.agreement.model_copy(update=changes)
    return replace(party.with_all_rows(), agreement=agreement, listed_rows=listed)


def announce_training(party: FederatedContext) -> None:
    """Before a training: a model that is kept stays, and the training becomes a newer version.

    Raises:
        StorageError: a model is kept, but the agreement keeps none.
    """
    store = federated_models(party)
    for each in store.recover():
        party.progress.warn(each)
    newest = store.newest_version()
    if newest is not None and party.agreement.requests.keep != "model":
        raise StorageError(
            f"{party.state} keeps version {newest.number} of the model, but the agreement has "
            "requests.keep = 'nothing': this training would replace the saved model and leave the "
            "kept one",
            "name another folder with --out, set requests.keep = 'model', or erase the kept model "
            "with vfl models remove --all",
        )


def _request_values(request: RequestBase) -> dict[str, Any]:
    return {
        "name": request.name,
        "client": request.client,
        "classes": list(getattr(request, "classes", ())),
        "fraction": request.fraction,
        "seed": request.seed,
        "has_list": request.has_list,
    }


def _stored_request(agreement: FederatedAgreement, values: dict[str, Any]) -> RequestBase:
    fields = values | {"classes": tuple(values["classes"])}
    if fields.pop("has_list", False):
        return agreement.listed_request(fields["name"], fields["client"])
    return agreement.request(**fields)
