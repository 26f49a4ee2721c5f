"""Program of the active party, the party that has the labels and controls every step."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from configs.agreement import VerticalAgreement
from parties.common.errors import StorageError, exit_code
from parties.common.shared_randomness import Index
from parties.report.record import ModelFigures, Request, Training, TrainingStep
from parties.session import handshake
from parties.session.handshake import CheckpointOffer
from parties.session.reconnect import Reconnect, report_and_close
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.requests import (
    RequestRows,
    next_labels,
    plant_in_training_rows,
    select_request_rows,
)
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import EpochResult, best_epoch
from parties.vertical.evaluation.compare import compare_methods
from parties.vertical.evaluation.metrics import empty_request_record, request_record
from parties.vertical.evaluation.row_groups import select_row_groups
from parties.vertical.evaluation.trained.figures import model_figures
from parties.vertical.forgotten_rows import newest_request_version
from parties.vertical.kept_model import (
    erase_replaced_models,
    next_version,
    party_models,
    replaced,
    report_kept_model,
    state_digest,
    version_of_training,
)
from parties.vertical.methods.fallback import keep_fallback_embeddings
from parties.vertical.methods.registry import early_checkpoint_share
from parties.vertical.methods.train_model import continue_training, train_model
from parties.vertical.privacy.claims import collect_spending
from parties.vertical.purge import purge_request, search_residues
from parties.vertical.resume import newest_checkpoint, start_split_model
from parties.vertical.run_record import FinishedParts, finished_record
from parties.vertical.saved_model import save_local_model
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.hub import Hub

Publish = Callable[[dict[str, Any]], None]
FITTED = (
    "preprocessing statistics, where a party has any, and the mean and scale of a label that is a "
    "number were fitted with the forgotten rows: only Retrain fits them again"
)
COPY = "a copy of the model from early in this unlearning, from which the next request starts"
EMBEDDINGS = (
    "the active party's copy of the embeddings of the remaining rows; each depends on no other row"
)
CHOSEN = "the number of epochs and the hyper-parameters were chosen with the forgotten rows"
KEPT = (
    CHOSEN,
    "every party's own source data, from which each party must delete the rows itself",
)


def run_active(party: VerticalParty, port: handshake.SpokePort, publish: Publish) -> dict[str, Any]:
    """Run the active party: accept connections, align the rows or resume, train, and unlearn.

    Args:
        party: the active party.
        port: accepts the connections of the passive parties.
        publish: function that receives the metrics before the ``Goodbye`` message is sent, or
            partial metrics after a failure.

    Returns:
        The metrics of the run.
    """
    reconnect = Reconnect(party, partial(newest_checkpoint, party))
    while True:
        hub, offers = reconnect.join(partial(handshake.accept_spokes, party, port))
        try:
            return _run_session(party, hub, offers, publish)
        except ProtocolError as error:
            reconnect.wait_or_raise(error)


def _run_session(
    party: VerticalParty, hub: Hub, offers: Mapping[str, CheckpointOffer], publish: Publish
) -> dict[str, Any]:
    with report_and_close(hub):
        made = newest_request_version(party, party.agreement.active)
        number = next_version(party_models(party), offers.values(), made)
        return _run(start_split_model(party, hub, offers), publish, number)


def _run(split_model: SplitModel, publish: Publish, number: int) -> dict[str, Any]:
    """Train, unlearn and report; then keep the model as version ``number``."""
    party, parts, began = split_model.party, FinishedParts(), split_model.party.now()
    try:
        _train_and_unlearn(split_model, parts)
    except Exception as error:
        expected = exit_code(error) is not None
        failure = str(error) if expected else f"unexpected {type(error).__name__}"
        try:
            publish(finished_record(split_model, began, parts, {}, failure).plain())
        except (StorageError, ValueError) as second:  # must not hide why the run failed
            party.progress.warn(f"no partial report: {second}")
        raise
    spent = collect_spending(split_model)
    metrics = finished_record(split_model, began, parts, spent).plain()
    keep_fallback_embeddings(split_model, vfl_pb2.TRAIN)
    save_local_model(party, split_model.state, split_model.run)
    if party.agreement.requests.keep == "model":
        uses_kept = split_model.state.uses_kept
        own = {"after": state_digest(split_model.state), **replaced(party, uses_kept=uses_kept)}
        facts = replace(version_of_training(party, uses_kept=uses_kept), own=own)
        split_model.keep_version(party_models(party), number, facts)
    report_kept_model(party)
    publish(metrics)
    split_model.goodbye()
    erase_replaced_models(party)
    return metrics


def _train_and_unlearn(split_model: SplitModel, parts: FinishedParts) -> None:
    """Train, then carry out every request; ``parts`` are completed on the way."""
    chosen = split_model.once("requests", list[RequestRows], lambda: _select_rows(split_model))
    plant_in_training_rows(split_model, chosen)
    planted = np.concatenate([np.empty(0, np.int64), *(each.canaries for each in chosen)])
    rows, early = vfl_pb2.TRAIN_ROWS, _early_checkpoint_epoch(split_model.agreement)
    if split_model.party.continues:
        kept = early is not None
        epochs = continue_training(split_model, rows, ORIGINAL, "training", early=kept)
    else:
        epochs = train_model(split_model, rows, ORIGINAL, "training", early)
    parts.training = _training_record(split_model, epochs)
    figures = split_model.once("test", dict, lambda: model_figures(split_model).plain())
    parts.model = ModelFigures.model_validate(figures)
    split_model.checkpoint()
    while chosen:
        parts.requests.append(_carry_out(split_model, chosen.pop(0), planted))


def _early_checkpoint_epoch(agreement: VerticalAgreement) -> int | None:
    """The epoch after which the early checkpoint is kept; None without an early checkpoint."""
    share = early_checkpoint_share(agreement)
    wanted = agreement.unlearn or agreement.requests.keep == "model"
    if not wanted or share is None:
        return None
    return max(1, round(share * agreement.training.epochs))


def _select_rows(split_model: SplitModel) -> list[RequestRows]:
    rows = split_model.state.features.rows
    return select_request_rows(split_model.party, rows, split_model.rows, split_model.labels)


def _carry_out(split_model: SplitModel, chosen: RequestRows, planted: Index) -> Request:
    before = split_model.rows
    corrects = chosen.request.corrects
    named = chosen.mislabelled if corrects else chosen.rows
    if corrects and len(named):
        wrong = next_labels(chosen.own_labels, split_model.agreement.labels.classes)
        split_model.correct(named, wrong, chosen.own_labels)
    elif len(named):
        split_model.forget(named)
    rows = split_model.rows
    dropped = {
        "validation": len(before.validation) - len(rows.validation),
        "test": len(before.test) - len(rows.test),
    }
    name = chosen.request.name
    if len(rows.forgotten):
        work = partial(_measure, split_model, chosen, planted)
        record = split_model.once(f"figures of {name}", dict, work)
    else:
        record = empty_request_record(split_model, chosen)
    results = {
        "rows": record["rows"] | {"dropped": dropped},
        "purged": purge_request(split_model, name) if len(named) else {},
        "remains": _search(split_model, name) if len(named) and not corrects else {},
        "kept": _remaining_state(split_model),
    }
    return Request(**(record | results))


def _search(split_model: SplitModel, name: str) -> dict[str, list[str]]:
    """The places where parties still find rows of the request after its purge."""
    search = partial(search_residues, split_model)
    return split_model.once(f"search after {name}", dict, search, durable=False)


def _remaining_state(split_model: SplitModel) -> list[str]:
    """State that still depends on the forgotten rows, or on wrong labels, for the report."""
    fitted = [FITTED] if split_model.agreement.preprocessing == "fitted" else []
    early = [COPY] if _early_checkpoint_epoch(split_model.agreement) else []
    if split_model.agreement.corrects:
        return [*early, CHOSEN]
    embeddings = [EMBEDDINGS] if split_model.agreement.keeps_embeddings else []
    return [*fitted, *early, *embeddings, *KEPT]


def _measure(split_model: SplitModel, chosen: RequestRows, planted: Index) -> dict[str, Any]:
    """Run and measure all methods; the models' logits are deleted afterwards."""
    groups = select_row_groups(split_model, chosen, planted)
    comparison = compare_methods(split_model, chosen.request)
    split_model.party.progress.phase("audit")
    return request_record(split_model, chosen, groups, comparison)


def _training_record(split_model: SplitModel, epochs: list[EpochResult]) -> Training:
    plan, continues = split_model.agreement.training, bool(split_model.party.continues)
    stops_early = plan.patience is not None and plan.start == "random" and not continues
    steps = [
        TrainingStep(
            number=each.epoch,
            loss=each.loss,
            validation_loss=each.validation_loss,
            validation_accuracy=each.validation_accuracy,
            validation_auc=each.validation_auc,
        )
        for each in epochs
    ]
    kept = best_epoch(epochs) if stops_early else epochs[-1].epoch
    return Training(unit="epoch", steps=tuple(steps), kept=kept, stream=ORIGINAL)
