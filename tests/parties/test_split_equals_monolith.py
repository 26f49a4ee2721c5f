"""The split model is the model: gradients, training and FedORA equal those of one process."""

from itertools import islice
from pathlib import Path

import pytest
import torch
from monolith import Fedora, Monolith
from trio import federation, forget_some, inputs, networks

from parties import fedora
from parties.federation import Batch, Use
from parties.learn import HOLD, Plan, hold, learn
from protocol import vfl_pb2
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import retain_steps

FEDORA = {
    "iterations": 20,
    "check_every": 100,
    "retain_share": 0.2,
    "utility_loss": 1.0,
    "batch": 16,
    "primal_step": 0.05,
    "dual_step": 0.05,
    "proximal": 0.01,
    "price_cap": 5.0,
    "adaptive": {
        "slow": 0.8,
        "fast": 1.5,
        "growth": 1.1,
        "decay": 0.5,
        "largest": 2.0,
        "smallest": 0.1,
    },
}


def copied(leading, answerers) -> Monolith:
    return Monolith.copy(
        networks(leading, answerers), inputs(leading, answerers), leading.labels.clone()
    )


def furthest(leading, answerers, model: Monolith) -> float:
    ours = networks(leading, answerers)
    return max(
        (a - b).abs().max().item()
        for name, half in model.halves.items()
        for a, b in zip(half.parameters(), ours[name].parameters(), strict=True)
    )


def test_gradients_of_loss_and_forgetting_score(tmp_path: Path) -> None:
    with federation(tmp_path) as (leading, answerers):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        model = copied(leading, answerers)
        rows = leading.rows.forgotten

        hold(leading, vfl_pb2.ASCEND)
        assert apart(leading, answerers, model.gradient(model.loss(rows))) < 1e-10

        def score(batch: Batch) -> Use:
            return Use(forgetting_scores(batch.logits, 2.0).mean(), HOLD)

        leading.sweep(vfl_pb2.UNLEARN, leading.parts(vfl_pb2.FORGOTTEN), score)
        assert apart(leading, answerers, model.gradient(model.score(rows, 2.0))) < 1e-10


def apart(leading, answerers, expected) -> float:
    leading.weigh(vfl_pb2.UNLEARN)  # a round trip: the passive parties have held theirs by now
    halves = [leading.half, *(answerers[name]._half for name in ("left", "right"))]
    held = [gradient for half in halves for gradient in half._work.held]
    return max((a - b).abs().max().item() for a, b in zip(held, expected, strict=True))


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_parameters_after_twenty_training_steps(tmp_path: Path, optimiser: str) -> None:
    training = {"optimiser": optimiser, "learning_rate": 0.01, "batch": 16, "epochs": 3}
    with federation(tmp_path, training=training) as (leading, answerers):
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        model = copied(leading, answerers)
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimiser]
        descent = kind(model.parameters, 0.01)
        learn(leading, Plan("training", vfl_pb2.TRAIN, vfl_pb2.LEARN, 3, 16))
        steps = 0
        for epoch in (1, 2, 3):
            order = leading.rows.shuffled(vfl_pb2.LEARN, "original", epoch)
            for start in range(0, len(order), 16):
                descent.zero_grad()
                model.loss(order[start : start + 16]).backward()
                descent.step()
                steps += 1
        assert steps >= 20
        assert furthest(leading, answerers, model) < 1e-8


def test_parameters_after_twenty_fedora_iterations(tmp_path: Path) -> None:
    with federation(tmp_path, unlearning={"fedora": FEDORA}) as (leading, answerers):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        learn(leading, Plan("training", vfl_pb2.TRAIN, vfl_pb2.LEARN, 2, 16))
        leading.keep("original", vfl_pb2.TRAIN)
        leading.restore("original", "original", vfl_pb2.UNLEARN)
        model = copied(leading, answerers)
        went = fedora.unlearn(leading, 1.0, 0.0)
        assert len(went.iterations) == 20
        assert went.iterations[-1].price > 0  # the constraint pushed

        alone = Fedora(model, gamma=1.0, tau=0.05, sigma=0.05)
        batches = retained_batches(leading)
        steps = retain_steps(0.2, len(leading.rows.retain), 16)
        for _ in range(20):
            alone.iterate(leading.rows.forgotten, list(islice(batches, steps)))
        assert furthest(leading, answerers, model) < 1e-8
        assert alone.price == pytest.approx(went.iterations[-1].price, rel=1e-9)


def retained_batches(leading):
    epoch = 0
    while True:
        epoch += 1
        order = leading.rows.shuffled(vfl_pb2.RETAIN, "original", epoch)
        for start in range(0, len(order), 16):
            yield order[start : start + 16]
