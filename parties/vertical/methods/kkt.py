"""The KKT report of FedORA: full-batch gradients of the model that it ended with."""

from dataclasses import asdict
from typing import Any

from torch.nn.functional import cross_entropy

from parties.vertical.engine.batch import Batch, Use
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import HOLD
from parties.vertical.methods.method import ORIGINAL
from protocol import vfl_pb2
from unlearning.kkt import Gradients, kkt
from unlearning.objectives import forgetting_scores

ANCHOR = "start of fedora"  # the copy that the proximal term holds on to, where there is one
_ADD = vfl_pb2.Gradient(add=vfl_pb2.Add())


def kkt_report(federation: Federation, gamma: float, price: float | None) -> dict[str, Any] | None:
    """The residuals of the present model; None with the literal dual, which has no such problem.

    Also None where there is no price yet, or numbers are no longer finite. It costs a pass over
    D_r and one over D_u.
    """
    if price is None:
        return None
    plan, score = federation.agreement.unlearning.fedora, [0.0]
    count = {part: len(federation.rows.of(part)) for part in (vfl_pb2.RETAIN, vfl_pb2.FORGOTTEN)}

    def retain(batch: Batch) -> Use:
        loss = cross_entropy(batch.logits, batch.labels, reduction="sum")
        return Use(loss / count[vfl_pb2.RETAIN], HOLD)

    def forget(batch: Batch) -> Use:
        mean = forgetting_scores(batch.logits, plan.weight).sum() / count[vfl_pb2.FORGOTTEN]
        score[0] += mean.item()
        return Use(-price * mean, _ADD)

    passes = federation.passes
    passes.sweep(vfl_pb2.UNLEARN, passes.parts(vfl_pb2.RETAIN), retain)
    retained = sum(each.held_square for each in _weigh(federation))
    passes.sweep(vfl_pb2.UNLEARN, passes.parts(vfl_pb2.FORGOTTEN), forget)
    pulled = sum(each.pulled_square for each in _weigh(federation))
    if federation.diverged:
        return None
    found = kkt(
        Gradients(retain=retained, lagrangian=pulled),
        price=price,
        threshold=gamma,
        forgetting=score[0],
        tolerance=plan.tolerance,
    )
    return asdict(found)


def _weigh(federation: Federation) -> list[vfl_pb2.Report]:
    """What all parties hold, also with the pull to where FedORA began; without ρ that is none."""
    anchor = ANCHOR if federation.agreement.unlearning.fedora.proximal else ORIGINAL
    weigh = vfl_pb2.Arrange(weigh=vfl_pb2.Weigh(anchor=anchor))
    return list(federation.everybody(vfl_pb2.UNLEARN, weigh).values())
