"""Carrying out a batch of requests with the kept model: the method alone, then a new version."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite

import numpy as np

from parties.common.errors import SessionEnded
from parties.common.shared_randomness import Index
from parties.requests.driver import NOT_FINITE, carry_out
from parties.requests.duties import RequestDesk
from parties.requests.events import EventKind, QuarantinedBody, event_time
from parties.requests.lifecycle import largest_version
from parties.requests.receipts import joined_figures, stated_guarantee
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.quick_audit import QuickAudit, Readout, quick_audit, read_out
from parties.vertical.kept_model import kept_replacement, state_digest
from parties.vertical.methods.fallback import keep_fallback_embeddings
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import vertical_method
from parties.vertical.purge import purge_request
from parties.vertical.service.comparison import (
    compare_batch,
    comparison_figures,
    write_comparison,
)
from parties.vertical.service.desk import corrected_labels, correction_records
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee
from unlearning.receipts.receipt import StatedGuarantee
from unlearning.receipts.table import upper_bound_text

# Keys in the facts of a version: the kind of guarantee of its requests and of those before them,
# and the numbers of a certificate, which is the same of both.
WEAKEST, CERTIFICATE = "weakest guarantee", "certificate"
# The numbers of each kind of certificate, by their names in the certificate of a method.
NUMBERS = {Guarantee.CERTIFIED: ("epsilon", "delta"), Guarantee.DISTANCE_CERTIFIED: ("bound",)}
# These are about the whole model after a method, so they hold whatever earlier methods did.
ANEW = (Guarantee.EXACT, *NUMBERS)


class Quarantined(SessionEnded):
    """The model after a batch is not delivered: it is too much worse, or is not finite."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one part of a batch did: the requests that forget rows, or those that replace labels."""

    guarantee: StatedGuarantee
    figures: dict[str, str] = field(default_factory=dict)  # for the facts of the new version
    changed: bool = True  # whether the method ran: the model had used the rows


def carry_out_batch(
    split_model: SplitModel, store: ModelStore, desk: RequestDesk, batch: list[str]
) -> None:
    """Carry out all requests of a batch, and write the next version at every party.

    Rows are forgotten first, and labels are replaced afterwards.

    Raises:
        Quarantined: the model lost more accuracy than agreed; every party must go back to the
            version before.
    """
    method, party = split_model.agreement.unlearning.method, split_model.party
    parent, earlier = _parent(store), _earlier(store)
    before = split_model.once("before", str, lambda: state_digest(split_model.state))
    corrections = [each for each in batch if desk.request(each).corrects]
    forgettings = [each for each in batch if each not in corrections]
    parts = [_forget(split_model, desk, forgettings, earlier)] if forgettings else []
    parts += [_correct(split_model, desk, corrections, earlier)] if corrections else []
    claimed = _together(parts)
    anew = any(each.changed and each.guarantee.kind in ANEW for each in parts)
    # Of all requests since the last method after which nothing of any forgotten row is left.
    of_all = claimed if anew else _together([_Part(earlier, changed=False), *parts])
    own = {
        "before": before,
        "after": state_digest(split_model.state),
        "older": store.contents(),
        **kept_replacement(store),
        "audit": joined_figures([each.figures for each in parts]),
        "guarantee": claimed.kind.value,
        WEAKEST: of_all.kind.value,
        CERTIFICATE: {name: getattr(claimed, name) for name in NUMBERS.get(claimed.kind, ())},
    }
    facts = VersionFacts("requests", event_time(party.now()), parent, tuple(batch), method, own)
    made = largest_version(desk.journal.events(), desk.rules.hub)
    split_model.keep_version(store, 1 + max(split_model.number, made), facts)


def _earlier(store: ModelStore) -> StatedGuarantee:
    """The weakest guarantee of the requests that made the present version; exact without one.

    A training that went on from another version may know rows that it was not trained on itself.
    """
    newest = store.newest_version()
    facts = None if newest is None else newest.version
    if facts is None:
        return StatedGuarantee(kind=Guarantee.EXACT)
    if facts.made_by == "training" and facts.parent is not None:
        return StatedGuarantee(kind=Guarantee.HEURISTIC)
    kind = facts.own.get(WEAKEST, facts.own.get("guarantee", Guarantee.EXACT.value))
    return stated_guarantee(kind, facts.own.get(CERTIFICATE, {}))


def _together(parts: Sequence[_Part]) -> StatedGuarantee:
    """What is claimed for all ``parts`` of a batch, in the order in which they ran.

    It is the weakest guarantee. Certificates of several parts are not combined: that of the last
    part which changed the model is about this model, and therefore holds for all parts.
    """
    weakest = _weakest([each.guarantee for each in parts])
    changed = [each.guarantee for each in parts if each.changed]
    return changed[-1] if changed and weakest.kind in ANEW else weakest


def _weakest(guarantees: Iterable[StatedGuarantee]) -> StatedGuarantee:
    """The guarantee of the weakest kind; the first one of several."""
    return max(guarantees, key=lambda each: each.kind.rank)


def _claimed(result: MethodResult, guarantee: Guarantee) -> StatedGuarantee:
    """The guarantee of a method's result, with the numbers of its certificate, rounded up.

    ``guarantee`` is that of the method.
    """
    kind = result.guarantee or guarantee
    certificate = result.figures.get("certificate") or {}
    found = {name: certificate.get(name) for name in NUMBERS.get(kind, ())}
    known = {name: each for name, each in found.items() if each is not None and isfinite(each)}
    return stated_guarantee(
        kind.value, {name: upper_bound_text(each) for name, each in known.items()}
    )


def _unused(
    split_model: SplitModel, earlier: StatedGuarantee, rows: Index, name: str = ""
) -> _Part:
    """What is claimed for ``rows``, [rows], on which the present model was not trained.

    Earlier requests may have removed some of them, with a weaker guarantee. Validation rows may
    have chosen the epoch. Call this before the rows are forgotten. ``name`` begins the name of the
    recorded step.
    """
    if split_model.agreement.training.patience is None:
        return _Part(earlier, changed=False)

    def validated() -> bool:
        return bool(np.isin(rows, split_model.rows.validation).any())

    chose = split_model.once(f"{name}validation rows among them", bool, validated)
    return _Part(StatedGuarantee(kind=Guarantee.HEURISTIC) if chose else earlier, changed=False)


def _forget(
    split_model: SplitModel, desk: RequestDesk, batch: list[str], earlier: StatedGuarantee
) -> _Part:
    """Forget the rows of requests; ``earlier``: the weakest guarantee of earlier requests."""
    asked = _rows(desk, batch)
    part = unused = _unused(split_model, earlier, asked)
    present = asked[split_model.state.features.rows[asked] >= 0]
    # Recorded: after a crash in a later part of the batch, the rows are erased already.
    rows = np.array(split_model.once("rows to forget", list, present.tolist), np.int64)
    if len(rows):
        split_model.forget(rows, batch)
    if len(split_model.rows.forgotten):
        part = _change(split_model, batch)
        if part.guarantee.kind not in ANEW and len(asked) > len(split_model.rows.forgotten):
            part = replace(part, guarantee=_weakest([part.guarantee, unused.guarantee]))
    if len(rows):
        desk.forget_ids(split_model.state.features.ids(), batch)
        purge_request(split_model, "batch")
    return part


def _correct(
    split_model: SplitModel, desk: RequestDesk, batch: list[str], earlier: StatedGuarantee
) -> _Part:
    """Replace the labels that requests name; ``earlier``: as in ``_forget``.

    Raises:
        StorageError: the labels are lost with a backup, and the data has the wrong ones.
    """
    wanted = corrected_labels(split_model, correction_records(split_model.party, desk, batch))
    recorded = split_model.once("labels", list, split_model.labels[wanted.rows].tolist)
    learned = np.array(recorded, np.int64)
    wanted.require_right(learned, batch, split_model.party.name)
    split_model.correct(wanted.rows, learned, wanted.labels, batch)
    if not len(split_model.rows.forgotten):
        split_model.end_correction()
        return _unused(split_model, earlier, wanted.rows, "corrections ")
    part = _change(split_model, batch)
    purge_request(split_model, "corrections")
    return part


def _change(split_model: SplitModel, batch: list[str]) -> _Part:
    """Run the method on D_u, and compare the model with the one before.

    Raises:
        Quarantined: the model lost more accuracy than agreed, has numbers that are not finite, or
            is the one from before, which the method restored.
    """
    agreement, corrects = split_model.agreement, split_model.rows.corrects
    method = vertical_method(agreement.unlearning.method)
    name = "corrections " if corrects else ""
    split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
    first = _readout(split_model, f"{name}before")
    result, compared = _run(split_model, batch)
    if result.stopped == NOT_FINITE:
        raise Quarantined(f"the method {method.name} computed a number that is not finite")
    if result.restored is not None:
        raise Quarantined(result.restored)
    after = _readout(split_model, f"{name}after")
    if not after.is_finite():
        raise Quarantined(f"after {method.name} the model has outputs that are not finite")
    # Recorded: after a crash in a later part of the batch, the labels are erased already.
    measure = partial(quick_audit, split_model, first, after)
    audit = split_model.once(f"{name}audit", QuickAudit, measure)
    lost = audit.loses()
    if lost is not None and lost > agreement.requests.guard:  # at every level of the audit
        split_model.party.progress.note(
            f"{audit.measure} on validation rows: {audit.validation_before:.4f} before "
            f"{method.name}, {audit.validation_after:.4f} afterwards"
        )
        raise Quarantined(  # all parties read the reason
            f"{audit.measure} on validation rows fell by {lost:.4f}, "
            "more than requests.guard allows"
        )
    keep_fallback_embeddings(split_model, vfl_pb2.UNLEARN)
    claimed = _claimed(result, method.guarantee)
    return _Part(claimed, _figures(split_model, audit) | compared)


def _run(split_model: SplitModel, batch: Sequence[str]) -> tuple[MethodResult, dict[str, str]]:
    """Carry out the method; with the audit ``full``, compare its model with Retrains.

    A correction of labels is not compared.

    Returns:
        The result of the method, and the figures of the comparison.
    """
    agreement, receipt = split_model.agreement, min(batch)
    if agreement.requests.audit != "full" or split_model.rows.corrects:
        method = vertical_method(agreement.unlearning.method)
        return carry_out(method, NetworkRun(split_model)), {}
    comparison, request = compare_batch(split_model, receipt)
    page = write_comparison(split_model, receipt, request)
    split_model.party.progress.note(f"comparison with Retrains: {page}")
    return comparison.delivered.result, dict(comparison_figures(request))


def _figures(split_model: SplitModel, audit: QuickAudit) -> dict[str, str]:
    """The figures of the active party, of which the receipt gets some; none without an audit."""
    if split_model.agreement.requests.audit == "none":
        return {}
    found = audit.as_text() | {"validation_rows": str(len(split_model.rows.validation))}
    if not split_model.rows.corrects:
        return found
    attacks = ("membership_auc", "membership_error", "streisand_auc")  # the rows stay in the model
    return {
        name.replace("forgotten", "corrected"): value
        for name, value in found.items()
        if name not in attacks
    }


def quarantine(desk: RequestDesk, store: ModelStore, batch: list[str], why: str) -> str:
    """Record that a batch is not delivered, and go back to the version before at this party.

    Returns:
        The reason, with what the parties can do.
    """
    reason = (
        f"{why}; the rows stay frozen. Set another unlearning.method, such as the exact "
        "'retrain-paired', in the agreement of all parties, and start them again: that method then "
        "carries the request out. The same method is not tried again, even with another "
        "requests.guard; raise requests.guard too if the other method may lose as much"
    )
    with desk.journal.transaction():
        for request in batch:
            desk.append(EventKind.QUARANTINED, request, QuarantinedBody(reason=reason))
    parent = _parent(store)
    store.prune(parent, parent)
    return reason


def _parent(store: ModelStore) -> int:
    newest = store.newest_version()
    if newest is None:
        raise LookupError("no version of the model is kept")
    return newest.number


def _rows(desk: RequestDesk, batch: list[str]) -> Index:
    """The common rows of all requests of a batch, [rows], ascending."""
    views = [desk.request(each) for each in batch]
    return np.array(sorted({row for view in views for row in view.rows or ()}), np.int64)


def _readout(split_model: SplitModel, when: str) -> Readout:
    return split_model.once(f"outputs {when}", Readout, partial(read_out, split_model))
