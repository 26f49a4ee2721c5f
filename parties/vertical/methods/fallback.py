"""The fallback model, with which the active party predicts alone while a party is absent.

1. When a version of the model is made, every party alone fits a fresh bottom model to codes of its
   own remaining rows, as in a training with a local start. No label takes part.
2. The embeddings of all rows cross once. The version keeps them.
3. While a party is absent, the active party alone fits a fresh top model to the kept embeddings,
   without the rows of open requests.

So the top model depends on nothing of the rows of open requests. The bottom models have read their
features, but not their labels.
"""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import EMBEDDINGS
from parties.vertical.methods.local_start import FIT, LocalStart, train_local_start
from parties.vertical.methods.network_run import PRESENT, NetworkRun
from parties.vertical.methods.orders import FALLBACK
from protocol import vfl_pb2

STREAM: Final = "fallback model"  # random stream of the weights, the codes and the batch order
_SETS: Final = (vfl_pb2.RETAIN, vfl_pb2.VALIDATION, vfl_pb2.TEST)


def keep_fallback_embeddings(split_model: SplitModel, task: vfl_pb2.Task) -> None:
    """Renew the embeddings of the fallback model, if the agreement has one; no parameter changes.

    Compute digests of the parameters afterwards: until then, after a crash, they may be others.

    Args:
        split_model: the model, whose next version keeps the embeddings.
        task: the current task.
    """
    if not split_model.agreement.fits_fallback:
        split_model.loop.fallback = None  # of an earlier agreement
        return
    run, stream = NetworkRun(split_model, task), split_model.stream
    run.keep(PRESENT)
    train_local_start(run, FALLBACK, STREAM, FIT)
    found = split_model.once(STREAM, list[Tensor], lambda: [_embeddings(split_model, task)])
    split_model.loop.fallback = found[0] if run.finite else None
    if not run.finite:
        run.progress.warn("the local fit diverged: this version has no fallback model")
    split_model.restore_copy(PRESENT, stream, task)
    split_model.drop_copy(PRESENT, task)


def _embeddings(split_model: SplitModel, task: vfl_pb2.Task) -> Tensor:
    """The embeddings of all rows that no request forgets, [common_rows, total_width], else 0."""
    parts = [split_model.loop.read(each, task).embeddings for each in _SETS]
    places = np.concatenate([split_model.rows.select(each) for each in _SETS])
    found = parts[0].new_zeros(len(split_model.labels), parts[0].shape[1])
    found[torch.from_numpy(places)] = torch.cat(parts)
    return found


def kept_embeddings(split_model: SplitModel) -> Tensor | None:
    """The embeddings of the fallback model that a version keeps, [common_rows, total_width].

    None if it keeps none. With ``training.local.keep_embeddings`` they are the model's own.
    """
    if not split_model.agreement.keeps_embeddings:
        return split_model.loop.fallback
    kept, sets = split_model.loop.kept(), split_model.rows
    found = kept[EMBEDDINGS]
    needed = np.concatenate([sets.train, sets.validation, sets.test])
    if not np.isin(needed, kept["embedded"]["rows"].numpy()).all():
        return None
    model = split_model.local_model.model
    if model.inputs is not None and isinstance(model.network, ActiveNetwork):
        with torch.no_grad():
            found[split_model.party.name] = model.network.embed(model.inputs.values)
    names = split_model.agreement.feature_parties
    return (
        torch.cat([found[name] for name in names], dim=1) if found.keys() >= names.keys() else None
    )


def fit_fallback_top(split_model: SplitModel, embeddings: Tensor) -> None:
    """Fit a fresh top model on D_r, as in a training with a local start; no message is sent.

    Args:
        split_model: the model, without passive parties.
        embeddings: those of the fallback model, [common_rows, total_width].
    """
    rows = torch.from_numpy(split_model.rows.retain)
    run = NetworkRun(split_model, vfl_pb2.UNLEARN, embeddings[rows])
    training = LocalStart(run, FALLBACK, vfl_pb2.RETAIN, STREAM, fits=False)
    run.progress.phase(STREAM, training.steps)
    training.begin()
    for number in range(training.epochs):
        training.epoch(number)
