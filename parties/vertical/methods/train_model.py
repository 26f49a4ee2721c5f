"""Training of a model between parties, with the agreed start: random weights, or a local start."""

from dataclasses import dataclass
from functools import partial

from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import EpochResult, train_from_random, validation_metrics
from parties.vertical.methods.local_start import JOINT, TOP, LocalStart
from parties.vertical.methods.network_run import NetworkRun
from protocol import vfl_pb2


def train_model(
    split_model: SplitModel,
    rows: vfl_pb2.Rows,
    stream: str,
    name: str,
    early: int | None = None,
) -> list[EpochResult]:
    """Initialise a model, and train it with the agreed start, optimiser and number of shards.

    Args:
        split_model: the model.
        rows: the row set for preprocessing and training.
        stream: random stream of the weights and the batch order.
        name: name in the progress display and in the journal.
        early: the epoch after which every party keeps the early checkpoint; with a local start,
            the checkpoint is kept before the joint epochs. None: no checkpoint.
    """
    if split_model.agreement.training.start == "random":
        return train_from_random(split_model, rows, stream, name, early)
    run = NetworkRun(split_model, vfl_pb2.TRAIN)
    training = LocalStart(run, split_model.agreement.training.local, rows, stream)
    split_model.party.progress.phase(name, training.steps)
    training.begin()
    return _train_phases(split_model, training, name, early=early is not None)


def continue_training(
    split_model: SplitModel, rows: vfl_pb2.Rows, stream: str, name: str, *, early: bool
) -> list[EpochResult]:
    """Go on from the kept version that the handshake named, by ``training.continued``.

    First the top model is trained on the embeddings of the kept bottom models, which are sent once,
    then all parties train together. A party that is new in the federation fits its bottom model to
    codes of its rows before; its columns of the top model begin with 0. If a party has left, or if
    rows of the version are not common any more, the parameters depend on what must not be used: all
    parties start from new weights, with a local start. So they do if a method needs an early
    checkpoint.

    Args:
        split_model: the model.
        rows: the row set of the training; a new party fits its preprocessing on it.
        stream: random stream of the batch order, and of the weights of new parties.
        name: name in the progress display and in the journal.
        early: whether every party keeps the early checkpoint, before the joint epochs.

    Raises:
        LookupError: the active party has no version to go on from.
    """
    plan, run = split_model.agreement.training.continued, NetworkRun(split_model, vfl_pb2.TRAIN)
    base = split_model.party.base
    if base is None:
        raise LookupError("the active party has no version of the model to go on from")
    new = split_model.agreement.feature_parties.keys() - base.widths.keys()
    used = base.used(split_model.state.features.ids()) and not early
    reason = base.anew or (
        "the unlearning method needs an early checkpoint"
        if early
        else "rows that it was trained with are not common any more"
    )
    split_model.party.progress.note(
        f"the training goes on from {base}"
        if used
        else f"all parts of the model start from new weights, and {base} is erased at the end: "
        f"{reason}"
    )
    training = LocalStart(run, plan, rows, stream, fits=bool(new) or not used)
    split_model.party.progress.phase(name, training.steps)
    rule = training.phases[0].rule
    split_model.initialise(stream, rows, vfl_pb2.TRAIN, rule=rule, from_kept=used)
    return _train_phases(split_model, training, name, early=early)


def _train_phases(
    split_model: SplitModel, training: LocalStart, name: str, *, early: bool
) -> list[EpochResult]:
    """Carry out all epochs; if ``early``, keep the early checkpoint before the joint epochs."""
    epochs: list[EpochResult] = []
    for number in range(training.epochs):
        work = partial(_validated_epoch, split_model, training, number)
        record = split_model.once(f"{name}, epoch {number + 1}", EpochRecord, work)
        if record.loss is not None:
            epochs.append(EpochResult(len(epochs) + 1, record.loss, *record.validation))
        if early and training.ends(TOP, number):
            split_model.keep_copy(EARLY_CHECKPOINT, vfl_pb2.TRAIN)
    return epochs


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The result of one epoch of a training with a local start."""

    loss: float | None  # mean loss of the batches; None in the local fit
    # Loss and accuracy on the validation rows; both None if the model was not validated. A number
    # has no accuracy.
    validation: tuple[float | None, float | None] = (None, None)


def _validated_epoch(split_model: SplitModel, training: LocalStart, number: int) -> EpochRecord:
    """One epoch; the model is validated after its top model was fitted."""
    phase, loss = training.epoch(number)
    if phase.name == JOINT or training.ends(TOP, number):
        return EpochRecord(loss, validation_metrics(split_model))
    return EpochRecord(loss)
