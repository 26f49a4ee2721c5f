"""Figures: the split model against the same model in one process, in float64."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from ledger import Row, at_most
from monolith import Fedora
from test_split_equals_monolith import FEDORA, apart, copied, furthest, retained_batches
from trio import federation, forget_some

from parties import fedora
from parties.federation import Batch, Use
from parties.learn import HOLD, Plan, hold, learn
from protocol import vfl_pb2
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import retain_steps


def equality() -> Iterator[Row]:
    """Gradients, training and FedORA."""
    for measure in (_gradients, _training, _fedora):
        with TemporaryDirectory() as folder:
            yield measure(Path(folder))


def _gradients(folder: Path) -> Row:
    with federation(folder) as (leading, answerers):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        model, rows = copied(leading, answerers), leading.rows.forgotten
        hold(leading, vfl_pb2.ASCEND)
        worst = apart(leading, answerers, model.gradient(model.loss(rows)))

        def score(batch: Batch) -> Use:
            return Use(forgetting_scores(batch.logits, 2.0).mean(), HOLD)

        leading.sweep(vfl_pb2.UNLEARN, leading.parts(vfl_pb2.FORGOTTEN), score)
        worst = max(worst, apart(leading, answerers, model.gradient(model.score(rows, 2.0))))
    return at_most("gradients of L_r and S_u, split against one process", worst, 1e-10, "")


def _training(folder: Path) -> Row:
    with federation(folder) as (leading, answerers):
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        model = copied(leading, answerers)
        descent = torch.optim.Adam(model.parameters, 0.01)
        orders = [leading.rows.shuffled(vfl_pb2.LEARN, "original", epoch) for epoch in (1, 2, 3)]
        learn(leading, Plan("training", vfl_pb2.TRAIN, vfl_pb2.LEARN, 3, 16))
        for order in orders:
            for start in range(0, len(order), 16):
                descent.zero_grad()
                model.loss(order[start : start + 16]).backward()
                descent.step()
        worst = furthest(leading, answerers, model)
    steps = sum(-(-len(order) // 16) for order in orders)
    return at_most(f"parameters after {steps} training steps", worst, 1e-8, "")


def _fedora(folder: Path) -> Row:
    with federation(folder, unlearning={"fedora": FEDORA}) as (leading, answerers):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        learn(leading, Plan("training", vfl_pb2.TRAIN, vfl_pb2.LEARN, 2, 16))
        leading.keep("original", vfl_pb2.TRAIN)
        leading.restore("original", "original", vfl_pb2.UNLEARN)
        model = copied(leading, answerers)
        fedora.unlearn(leading, 1.0, 0.0)
        alone = Fedora(model, gamma=1.0, tau=0.05, sigma=0.05)
        batches = retained_batches(leading)
        steps = retain_steps(0.2, len(leading.rows.retain), 16)
        for _ in range(20):
            alone.iterate(leading.rows.forgotten, list(islice(batches, steps)))
        worst = furthest(leading, answerers, model)
    return at_most("parameters after 20 FedORA iterations", worst, 1e-8, "")
