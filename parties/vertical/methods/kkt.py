"""FedORA's KKT report: residuals of the final model, from full-batch gradients."""

from dataclasses import asdict
from typing import Any

from configs.unlearning import FedoraSettings
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.run import HOLD, Batch, Loss, VerticalRun
from protocol import vfl_pb2
from unlearning.kkt import KktGradients, kkt_residuals
from unlearning.objectives import forgetting_scores

ANCHOR = "start of fedora"  # slot of θ₀, if FedORA has a proximal term
_ADD = vfl_pb2.Gradient(add_to_held=vfl_pb2.AddToHeld())


def kkt_report(run: VerticalRun, gamma: float, dual: float | None) -> dict[str, Any] | None:
    """The KKT residuals of a single model.

    The computation takes one pass over D_r and one pass over D_u.

    Args:
        run: the model.
        gamma: the threshold γ.
        dual: the dual Ω; None for the literal dual, or if FedORA ran no iteration.

    Returns:
        The residuals; None if ``dual`` is None, or if a residual is not finite.
    """
    if dual is None:
        return None
    plan, score = run.settings(FedoraSettings), [0.0]
    retained, forgotten = run.row_count(vfl_pb2.RETAIN), run.row_count(vfl_pb2.FORGOTTEN)

    def retain(batch: Batch) -> Loss:
        return Loss(batch.cross_entropy_sum() / retained, HOLD)

    def forget(batch: Batch) -> Loss:
        scores = forgetting_scores(batch.logits.flatten(0, 1), plan.weight)
        mean = batch.sums(scores) / forgotten
        score[0] += mean.item()
        return Loss(-dual * mean, _ADD)

    run.run_batches(run.pass_requests(vfl_pb2.RETAIN), retain)
    (ours,) = run.norms(*_proximal_term(plan))
    run.run_batches(run.pass_requests(vfl_pb2.FORGOTTEN), forget)
    (both,) = run.norms(*_proximal_term(plan))
    if not run.finite:
        return None
    residuals = kkt_residuals(
        KktGradients(retain=ours.held, lagrangian=both.proximal),
        dual=dual,
        threshold=gamma,
        forgetting=score[0],
        tolerance=plan.tolerance,
    )
    return asdict(residuals)


def _proximal_term(plan: FedoraSettings) -> tuple[str, float]:
    """The anchor and ρ; without a proximal term ρ is 0, and the anchor does not matter."""
    return ANCHOR if plan.proximal else ORIGINAL, plan.proximal
