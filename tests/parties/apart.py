"""Numerical distance between the split model and one process; the bench uses it too."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monolith import Fedora, Monolith
from three_parties import PAPER, forget_some, inputs, networks, open_split_model
from torch import nn

from parties.vertical.engine.networks import build_active_network
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import HOLD, TrainingPlan, hold_forget_gradient, train_epochs
from parties.vertical.engine.training_loop import BatchLoss, TrainingBatch
from parties.vertical.methods import fedora
from parties.vertical.passive import PassiveSession
from protocol import vfl_pb2
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import retain_steps

BATCH, EPOCHS, ITERATIONS, SHARE, STEP, GAMMA = 16, 3, 20, 0.2, 0.05, 1.0
OPTIMISERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
FEDORA = PAPER | {
    "iterations": ITERATIONS,
    "check_every": 100,
    "retain_share": SHARE,
    "utility_loss": 1.0,
    "batch": BATCH,
    "primal_step": STEP,
    "dual_step": STEP,
    "proximal": 0.01,
    "max_multiplier": 5.0,
    "adaptive": {
        "beta": 0.8,
        "alpha": 1.5,
        "growth": 1.1,
        "decay": 0.5,
        "largest": 2.0,
        "smallest": 0.1,
    },
}
Answerers = Mapping[str, PassiveSession]


def gradients_apart(folder: Path) -> float:
    """Largest difference between the gradients of L_r and S_u."""
    with open_split_model(folder) as (leading, answerers):
        forget_some(leading)
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        model, rows = copied(leading, answerers), leading.rows.forgotten
        hold_forget_gradient(leading, vfl_pb2.GRADIENT_ASCENT)
        of_loss = _held_apart(leading, answerers, model.gradient(model.loss(rows)))

        def score(batch: TrainingBatch) -> BatchLoss:
            return BatchLoss(forgetting_scores(batch.logits, 2.0).mean(), HOLD)

        leading.loop.run_batches(
            vfl_pb2.UNLEARN, leading.loop.pass_requests(vfl_pb2.FORGOTTEN), score
        )
        of_score = _held_apart(leading, answerers, model.gradient(model.score(rows, 2.0)))
    return max(of_loss, of_score)


def training_apart(folder: Path, optimiser: str = "adam") -> tuple[int, float]:
    """Number of steps, and the largest difference between the parameters after them."""
    training = {"optimiser": optimiser, "learning_rate": 0.01, "batch": BATCH, "epochs": EPOCHS}
    with open_split_model(folder, training=training) as (leading, answerers):
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        model, steps = copied(leading, answerers), 0
        descent = OPTIMISERS[optimiser](model.parameters, 0.01)
        train_epochs(
            leading, TrainingPlan("training", vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH)
        )
        for batch in islice(_batches(leading, vfl_pb2.TRAIN_ROWS), EPOCHS * _per_epoch(leading)):
            descent.zero_grad()
            model.loss(batch).backward()
            descent.step()
            steps += 1
        return steps, furthest(leading, answerers, model)


def fedora_apart(
    folder: Path, alone_with: Mapping[str, Any] | None = None, **changes: Any
) -> tuple[float, float, float]:
    """Both duals, and the largest difference between the parameters, after 20 iterations.

    ``changes`` change FedORA's settings; ``alone_with`` are the same changes for the single
    process.
    """
    with open_split_model(folder, unlearning={"fedora": FEDORA | changes}) as (leading, answerers):
        forget_some(leading)
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        train_epochs(leading, TrainingPlan("training", vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, 2, BATCH))
        leading.keep_copy("original", vfl_pb2.TRAIN)
        leading.restore_copy("original", "original", vfl_pb2.UNLEARN)
        model = copied(leading, answerers)
        if changes.get("start") == "shrink":
            shrunk(model, fresh(leading, answerers, "start of fedora"), 0.3, 1.0)
        settings = {"gamma": GAMMA, "tau": STEP, "sigma": STEP} | dict(alone_with or {})
        alone = Fedora(model, **settings)
        went = fedora.run_fedora(leading, settings["gamma"], 0.0)
        batches = _batches(leading, vfl_pb2.RETAIN)
        share = changes.get("retain_share", SHARE)
        steps = retain_steps(share, len(leading.rows.retain), BATCH) if share else 0
        for _ in range(ITERATIONS):
            alone.iterate(leading.rows.forgotten, list(islice(batches, steps)))
        price = went.iterations[-1].price or 0.0
        return price, alone.price, furthest(leading, answerers, alone.model)


def copied(leading: SplitModel, answerers: Answerers) -> Monolith:
    """The present model in one process."""
    halves, features = networks(leading, answerers), inputs(leading, answerers)
    return Monolith.copy(halves, features, leading.labels.clone())


def _held_apart(leading: SplitModel, answerers: Answerers, expected: list[torch.Tensor]) -> float:
    leading.report_norms(
        vfl_pb2.UNLEARN
    )  # a round trip: the passive parties have held theirs by now
    halves = [
        leading.local_model,
        *(answerers[name]._state.local_model for name in ("left", "right")),
    ]
    held = [gradient for half in halves for gradient in half._task.held]
    return max((a - b).abs().max().item() for a, b in zip(held, expected, strict=True))


def fresh(leading: SplitModel, answerers: Answerers, stream: str) -> dict[str, nn.Module]:
    """The parties' networks with weights of the random stream ``stream``."""
    own = leading.local_model.model.inputs
    found: dict[str, nn.Module] = {
        name: each._network(stream, each._state.local_model.model.inputs)
        for name, each in answerers.items()
    }
    return found | {"hub": build_active_network(leading.party, stream, own)}


@torch.no_grad()
def shrunk(model: Monolith, other: Mapping[str, nn.Module], bottom: float, top: float) -> None:
    """Move a model towards another one."""
    for name, half in model.halves.items():
        pairs = zip(half.named_parameters(), other[name].parameters(), strict=True)
        for (place, ours), theirs in pairs:
            share = top if place.startswith("top.") else bottom
            ours.copy_((1 - share) * ours + share * theirs)


def furthest(leading: SplitModel, answerers: Answerers, model: Monolith) -> float:
    """The largest difference between any two parameters."""
    ours = networks(leading, answerers)
    return max(
        (a - b).abs().max().item()
        for name, half in model.halves.items()
        for a, b in zip(half.parameters(), ours[name].parameters(), strict=True)
    )


def _batches(leading: SplitModel, rows: vfl_pb2.Rows) -> Iterator[np.ndarray]:
    """The batches of all epochs, in the order of the shared randomness."""
    epoch = 0
    while True:
        epoch += 1
        order = leading.rows.shuffled(rows, "original", epoch)
        for start in range(0, len(order), BATCH):
            yield order[start : start + BATCH]


def _per_epoch(leading: SplitModel) -> int:
    return -(-len(leading.rows.train) // BATCH)
