"""Numerical distance between the split model and one process; the bench uses it too."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fixed_threshold import run_fedora
from monolith import Fedora, Monolith
from three_parties import (
    PAPER,
    forget_some,
    inputs,
    networks,
    open_split_model,
    start_training,
)
from torch import nn

from parties.vertical.engine.networks import build_active_network
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.engine.training_loop import HOLD, BatchLoss, TrainingBatch
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.run import hold_forget_gradient
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
Sessions = Mapping[str, PassiveSession]


def gradient_difference(folder: Path) -> float:
    """Largest difference between the gradients of L_r and S_u."""
    with open_split_model(folder) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original")
        model, rows = copy_to_one_process(split_model, sessions), split_model.rows.forgotten
        hold_forget_gradient(NetworkRun(split_model))
        of_loss = _held_difference(split_model, sessions, model.gradient(model.loss(rows)))

        def score(batch: TrainingBatch) -> BatchLoss:
            return BatchLoss(forgetting_scores(batch.logits, 2.0).mean(), HOLD)

        split_model.loop.run_batches(
            vfl_pb2.UNLEARN, split_model.loop.pass_requests(vfl_pb2.FORGOTTEN), score
        )
        of_score = _held_difference(split_model, sessions, model.gradient(model.score(rows, 2.0)))
    return max(of_loss, of_score)


def training_difference(folder: Path, optimiser: str = "adam") -> tuple[int, float]:
    """Number of steps, and the largest difference between the parameters after them."""
    training = {"optimiser": optimiser, "learning_rate": 0.01, "batch": BATCH, "epochs": EPOCHS}
    with open_split_model(folder, training=training) as (split_model, sessions):
        start_training(split_model, "original")
        model, steps = copy_to_one_process(split_model, sessions), 0
        descent = OPTIMISERS[optimiser](model.parameters, 0.01)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH))
        for batch in islice(
            batches(split_model, vfl_pb2.TRAIN_ROWS), EPOCHS * _per_epoch(split_model)
        ):
            descent.zero_grad()
            model.loss(batch).backward()
            descent.step()
            steps += 1
        return steps, largest_difference(split_model, sessions, model)


def fedora_difference(
    folder: Path, settings_of_single_process: Mapping[str, Any] | None = None, **changes: Any
) -> tuple[float, float, float]:
    """Both duals, and the largest difference between the parameters, after 20 iterations.

    ``changes`` change FedORA's settings; ``alone_with`` are the same changes for the single
    process.
    """
    with open_split_model(folder, unlearning={"fedora": FEDORA | changes}) as (
        split_model,
        sessions,
    ):
        forget_some(split_model)
        start_training(split_model, "original")
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 2, BATCH))
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        model = copy_to_one_process(split_model, sessions)
        if changes.get("start") == "shrink":
            shrink_towards(model, new_networks(split_model, sessions, "start of fedora"), 0.3, 1.0)
        settings = {"gamma": GAMMA, "tau": STEP, "sigma": STEP} | dict(
            settings_of_single_process or {}
        )
        single_process = Fedora(model, **settings)
        result = run_fedora(split_model, settings["gamma"], 0.0)
        order = batches(split_model, vfl_pb2.RETAIN)
        share = changes.get("retain_share", SHARE)
        steps = retain_steps(share, len(split_model.rows.retain), BATCH) if share else 0
        for _ in range(ITERATIONS):
            single_process.iterate(split_model.rows.forgotten, list(islice(order, steps)))
        multiplier = result.iterations[-1]["multiplier"] or 0.0
        return (
            multiplier,
            single_process.multiplier,
            largest_difference(split_model, sessions, single_process.model),
        )


def copy_to_one_process(split_model: SplitModel, sessions: Sessions) -> Monolith:
    """The present model in one process."""
    party_networks, features = networks(split_model, sessions), inputs(split_model, sessions)
    return Monolith.copy(party_networks, features, split_model.labels.clone())


def _held_difference(
    split_model: SplitModel, sessions: Sessions, expected: list[torch.Tensor]
) -> float:
    split_model.report_norms(
        vfl_pb2.UNLEARN
    )  # a round trip: the passive parties have held theirs by now
    local_models = [
        split_model.local_model,
        *(sessions[name].state.local_model for name in ("left", "right")),
    ]
    held = [gradient for local_model in local_models for gradient in local_model._task.held]
    return max((a - b).abs().max().item() for a, b in zip(held, expected, strict=True))


def new_networks(split_model: SplitModel, sessions: Sessions, stream: str) -> dict[str, nn.Module]:
    """The parties' networks with weights of the random stream ``stream``."""
    own = split_model.local_model.model.inputs
    by_party: dict[str, nn.Module] = {
        name: each._network(stream, each.state.local_model.model.inputs)
        for name, each in sessions.items()
    }
    return by_party | {"hub": build_active_network(split_model.party, stream, own)}


@torch.no_grad()
def shrink_towards(
    model: Monolith, other: Mapping[str, nn.Module], bottom: float, top: float
) -> None:
    """Move a model towards another one."""
    for name, network in model.networks.items():
        pairs = zip(network.named_parameters(), other[name].parameters(), strict=True)
        for (place, ours), theirs in pairs:
            share = top if place.startswith("top.") else bottom
            ours.copy_((1 - share) * ours + share * theirs)


def largest_difference(split_model: SplitModel, sessions: Sessions, model: Monolith) -> float:
    """The largest difference between any two parameters."""
    ours = networks(split_model, sessions)
    return max(
        (a - b).abs().max().item()
        for name, network in model.networks.items()
        for a, b in zip(network.parameters(), ours[name].parameters(), strict=True)
    )


def batches(split_model: SplitModel, rows: vfl_pb2.Rows) -> Iterator[np.ndarray]:
    """The batches of all epochs, in the order of the shared randomness."""
    epoch = 0
    while True:
        epoch += 1
        order = split_model.rows.shuffled(rows, "original", epoch)
        for start in range(0, len(order), BATCH):
            yield order[start : start + BATCH]


def _per_epoch(split_model: SplitModel) -> int:
    return -(-len(split_model.rows.train) // BATCH)
