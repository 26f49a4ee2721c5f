"""FedORA's KKT report: residuals of the final model, from full-batch gradients."""

from dataclasses import asdict
from typing import Any

from torch.nn.functional import cross_entropy

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import HOLD
from parties.vertical.engine.training_loop import BatchLoss, TrainingBatch
from protocol import vfl_pb2
from unlearning.kkt import KktGradients, kkt_residuals
from unlearning.objectives import forgetting_scores

ANCHOR = "start of fedora"  # slot of θ₀, if FedORA has a proximal term
_ADD = vfl_pb2.Gradient(add_to_held=vfl_pb2.AddToHeld())


def kkt_report(split_model: SplitModel, gamma: float, dual: float | None) -> dict[str, Any] | None:
    """The KKT residuals of the current model.

    The computation takes one pass over D_r and one pass over D_u.

    Args:
        split_model: the model.
        gamma: the threshold γ.
        dual: the dual Ω; None for the literal dual, or if FedORA ran no iteration.

    Returns:
        The residuals; None if ``dual`` is None, or if a residual is not finite.
    """
    if dual is None:
        return None
    plan, score = split_model.agreement.unlearning.fedora, [0.0]
    count = {
        part: len(split_model.rows.select(part)) for part in (vfl_pb2.RETAIN, vfl_pb2.FORGOTTEN)
    }

    def retain(batch: TrainingBatch) -> BatchLoss:
        loss = cross_entropy(batch.logits, batch.labels, reduction="sum")
        return BatchLoss(loss / count[vfl_pb2.RETAIN], HOLD)

    def forget(batch: TrainingBatch) -> BatchLoss:
        mean = forgetting_scores(batch.logits, plan.weight).sum() / count[vfl_pb2.FORGOTTEN]
        score[0] += mean.item()
        return BatchLoss(-dual * mean, _ADD)

    loop = split_model.loop
    loop.run_batches(vfl_pb2.UNLEARN, loop.pass_requests(vfl_pb2.RETAIN), retain)
    retained = sum(each.held_square for each in _report_norms(split_model))
    loop.run_batches(vfl_pb2.UNLEARN, loop.pass_requests(vfl_pb2.FORGOTTEN), forget)
    lagrangian = sum(each.proximal_square for each in _report_norms(split_model))
    if split_model.diverged:
        return None
    residuals = kkt_residuals(
        KktGradients(retain=retained, lagrangian=lagrangian),
        dual=dual,
        threshold=gamma,
        forgetting=score[0],
        tolerance=plan.tolerance,
    )
    return asdict(residuals)


def _report_norms(split_model: SplitModel) -> list[vfl_pb2.BlockReport]:
    """All parties' norms of the held gradient, with and without the proximal term."""
    # Without a proximal term ρ is 0, and the anchor does not matter.
    anchor = ANCHOR if split_model.agreement.unlearning.fedora.proximal else ORIGINAL
    command = vfl_pb2.ModelCommand(report_norms=vfl_pb2.ReportNorms(anchor=anchor))
    return list(split_model.command_all(vfl_pb2.UNLEARN, command).values())
