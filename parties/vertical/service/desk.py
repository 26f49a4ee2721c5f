"""The desk for requests of a vertical party, and the rows and labels that they name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.config_file import agreement_digest
from configs.unlearning import MethodSettings, table_name
from parties.common.errors import StorageError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.requests.duties import RequestDesk
from parties.requests.lifecycle import ENDED, RequestView, in_order
from parties.requests.receipts import Federation, params_hash
from parties.requests.subjects import SubjectStore
from parties.vertical.engine.features import read_labels
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.forgotten_rows import request_rules
from parties.vertical.kept_model import kept_ids, party_models
from parties.vertical.service.departure import refuse_departure


def federation_of(agreement: VerticalAgreement) -> Federation:
    """What receipts say about the federation."""
    method = agreement.unlearning.method
    settings = getattr(agreement.unlearning, table_name(method), None)
    content = settings.model_dump_json() if settings is not None else "{}"
    return Federation(
        name=agreement.federation,
        roles={name: each.role for name, each in agreement.parties.items()},
        plan_hash=agreement_digest(agreement).hex(),
        params_hash=params_hash(f"{method} {content}"),
        guard=agreement.requests.guard,
    )


def open_desk(party: VerticalParty, agreement: VerticalAgreement) -> RequestDesk:
    """Open the journal of requests of a vertical party."""
    rules, federation = request_rules(agreement), federation_of(agreement)
    settings, row_ids = party.settings.requests, PresentIds(party)
    return RequestDesk(
        party,
        rules,
        federation,
        automatic=settings.policy == "automatic",
        recipients=settings.recipients,
        refusal=partial(_refusal, party, row_ids),
        row_ids=row_ids,
    )


class PresentIds:
    """The IDs of a party by common index in its newest version; read once for each version."""

    def __init__(self, party: VerticalParty) -> None:
        self._store = party_models(party)
        self._read: tuple[tuple[int, bytes], Sequence[bytes]] | None = None

    def __call__(self) -> Sequence[bytes]:
        """Return the IDs, with empty bytes for erased rows; there are none without a model."""
        newest = self._store.newest_version()
        if newest is None:
            return ()
        version = (newest.number, newest.run)
        if self._read is None or self._read[0] != version:
            self._read = (version, kept_ids(self._store, newest.number))
        return self._read[1]


def why_not_corrected(agreement: VerticalAgreement) -> str:
    """Why labels of a kept model cannot be replaced; empty if they can."""
    plan, task = agreement.unlearning, agreement.labels.task
    if task != "classification":
        return f"labels.task is {task!r}, and only a class can be corrected"
    if plan.method not in plan.correcting:
        return (
            f"unlearning.method = {plan.method!r} cannot correct labels; these methods can: "
            f"{', '.join(plan.correcting)}"
        )
    if agreement.privacy.label_dp is not None:
        return "privacy.label_dp flips labels at random, so a correction is not possible"
    settings: MethodSettings | None = getattr(plan, table_name(plan.method), None)
    return "" if settings is None else settings.why_not_corrected()


def _refusal(party: VerticalParty, row_ids: PresentIds, view: RequestView) -> str:
    """Why a party refuses a request by its policy; empty if it does not."""
    agreement, common = party.agreement, len(row_ids())
    if common and view.rows and view.rows[-1] >= common:
        return f"it names row {view.rows[-1]}, but the model has {common} rows"
    if not view.corrects:
        return refuse_departure(party, view)
    if view.origin != agreement.active:
        return f"only {agreement.active} has labels and can correct them"
    return why_not_corrected(agreement)


@dataclass(frozen=True, slots=True)
class CorrectionRecord:
    """What the active party keeps about a request that replaces labels; ``repr`` shows no label.

    Attributes:
        rows: common indices of the rows.
        labels: by ID, the name of the class; without the rows that were forgotten since. None if
            the private record of the request was purged, or is lost with a backup.
    """

    rows: frozenset[int] = field(repr=False)
    labels: Mapping[bytes, str] | None = field(repr=False)


def correction_records(
    party: VerticalParty, desk: RequestDesk, batch: Iterable[str]
) -> list[CorrectionRecord]:
    """The records of requests that replace labels, in the order in which they were carried out.

    Raises:
        IntegrityError: a record cannot be decrypted.
    """
    store, found = SubjectStore(desk.journal, party.keys), []
    for view in in_order(map(desk.request, batch)):
        subjects = store.of(view.id)
        labels = None if subjects is None else {s.id: s.label for s in subjects if s.label}
        found.append(CorrectionRecord(frozenset(view.rows or ()), labels))
    return found


@dataclass(frozen=True, slots=True)
class CorrectedLabels:
    """Rows whose labels requests replace, and their new labels.

    Attributes:
        rows: [rows], common indices, ascending.
        labels: [rows], their new labels.
        read: [read], those of the rows whose labels are of the party's data.
    """

    rows: Index
    labels: Index
    read: Index

    def require_right(self, learned: Index, batch: Iterable[str], party: str) -> None:
        """Check that no label of the data is the one that the model ``learned``, [rows].

        Args:
            learned: labels of the model, [rows].
            batch: the IDs of the requests.
            party: name of the active party.

        Raises:
            StorageError: the labels of a request are lost, and the data has the wrong ones.
        """
        if same := int((np.isin(self.rows, self.read) & (learned == self.labels)).sum()):
            raise StorageError(
                f"the labels that the requests {', '.join(batch)} name are not kept any more, and "
                f"the data of {party} has {same} of the wrong ones",
                "correct the labels in the data, and start again",
            )


def corrected_labels(
    split_model: SplitModel, records: Iterable[CorrectionRecord]
) -> CorrectedLabels:
    """The rows of the model whose labels requests replace, and their new labels.

    The label of a row is that of the last record that names it. A record without labels takes those
    of the party's data. Rows that the model does not have are left out.
    """
    party, features = split_model.party, split_model.state.features
    classes = split_model.agreement.labels.classes
    place = {each: row for row, each in enumerate(features.ids()) if each}
    found, read = dict[int, int](), set[int]()
    for record in records:
        if record.labels is None:
            present = [row for row in sorted(record.rows) if features.rows[row] >= 0]
            own = read_labels(party, features.rows[present])
            found |= dict(zip(present, own.tolist(), strict=True))
            read |= set(present)
            continue
        for identity, label in record.labels.items():
            if place.get(identity) in record.rows:
                found[place[identity]] = classes.index(label)
                read.discard(place[identity])
    ordered = sorted(found)
    labels = np.array([found[row] for row in ordered], np.int64)
    return CorrectedLabels(np.array(ordered, np.int64), labels, np.array(sorted(read), np.int64))


def labels_before(split_model: SplitModel, desk: RequestDesk, view: RequestView) -> Tensor:
    """The labels that a request by label means, [common_rows]; -1 for erased rows.

    They are those of the model, except where earlier requests correct labels and are not carried
    out yet, which were neither rejected nor withdrawn.

    Raises:
        StorageError: the labels of a correction are lost, and the data has the wrong ones.
    """
    labels, party = split_model.labels.clone(), split_model.party
    earlier = [
        each.id
        for each in desk.requests()
        if each.corrects
        and each.origin == party.name  # no other party has labels
        and each.id < view.id
        and each.state not in ENDED
        and each.version_after is None
    ]
    wanted = corrected_labels(split_model, correction_records(party, desk, earlier))
    wanted.require_right(labels[wanted.rows].numpy(), earlier, party.name)
    labels[wanted.rows] = torch.from_numpy(wanted.labels)
    return labels


def labelled_rows(split_model: SplitModel, view: RequestView, labels: Tensor) -> Index:
    """The rows of a request by label, [rows], ascending; only the active party has the labels.

    ``labels`` are those that the request means, [common_rows].
    """
    content = view.content
    share, stream = float(content.fraction), f"{view.id} {content.seed}"
    return _rows_of_labels(split_model, labels, content.classes, share=share, stream=stream)


def _rows_of_labels(
    split_model: SplitModel, labels: Tensor, classes: Sequence[str], *, share: float, stream: str
) -> Index:
    """A keyed sample of the rows of some classes, [rows], ascending; unknown classes have no rows.

    Labels that are not one of several classes have no rows.

    Args:
        split_model: the model.
        labels: the labels of all rows that were not erased, [common_rows].
        classes: names of the classes.
        share: fraction of the training rows of each class. If it is 1, validation and test rows of
            the classes are returned, too; with ``label_dp`` without rows whose labels are true.
        stream: random stream of the sample.
    """
    known = split_model.agreement.labels.classes
    found = [np.empty(0, np.int64)]
    single = split_model.agreement.labels.task == "classification"
    for name in classes:
        if name not in known or not single:
            continue
        members = np.flatnonzero((labels == known.index(name)).numpy())
        if share < 1:
            members = np.intersect1d(members, split_model.rows.train)
            secret = derive_key(split_model.agreement.seed, "request by label", stream, name)
            members = members[permutation(secret, len(members))[: round(share * len(members))]]
        found.append(split_model.used_labels.nameable(members))
    return np.unique(np.concatenate(found)).astype(np.int64)
