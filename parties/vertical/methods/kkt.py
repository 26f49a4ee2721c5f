"""FedORA's KKT report: residuals of the final model, from full-batch gradients."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.training_loop import HOLD
from parties.vertical.methods.run import Batch, Loss, VerticalRun
from protocol import vfl_pb2
from unlearning.kkt import KktGradients, kkt_residuals

ANCHOR = "start of fedora"  # slot of θ₀, if FedORA has a proximal term
_ADD = vfl_pb2.Gradient(add_to_held=vfl_pb2.AddToHeld())


@dataclass(frozen=True, slots=True)
class KktTerms:
    """The settings of FedORA on which the KKT report depends."""

    scores: Callable[[Batch], Tensor]  # the forgetting score of each row of a batch, [N * batch]
    proximal: float  # ρ, weight of the proximal term
    tolerance: float  # largest relative residual that counts as converged


def kkt_report(
    run: VerticalRun, gamma: float, dual: float | None, terms: KktTerms
) -> dict[str, Any] | None:
    """The KKT residuals of a single model.

    The computation takes one pass over D_r and one pass over D_u.

    Args:
        run: the model.
        gamma: the threshold γ.
        dual: the dual Ω; None for the literal dual, or if FedORA ran no iteration.
        terms: the settings of FedORA.

    Returns:
        The residuals; None if ``dual`` is None, or if a residual is not finite.
    """
    if dual is None:
        return None
    score = [0.0]
    retained, forgotten = run.row_count(vfl_pb2.RETAIN), run.row_count(vfl_pb2.FORGOTTEN)

    def retain(batch: Batch) -> Loss:
        return Loss(batch.loss_sum() / retained, HOLD)

    def forget(batch: Batch) -> Loss:
        mean = batch.sums(terms.scores(batch)) / forgotten
        score[0] += mean.item()
        return Loss(-dual * mean, _ADD)

    run.run_batches(run.pass_requests(vfl_pb2.RETAIN), retain)
    # Without a proximal term ρ is 0, and the anchor does not matter.
    anchor = ANCHOR if terms.proximal else ORIGINAL
    (ours,) = run.norms(anchor, terms.proximal)
    run.run_batches(run.pass_requests(vfl_pb2.FORGOTTEN), forget)
    (both,) = run.norms(anchor, terms.proximal)
    if not run.finite:
        return None
    residuals = kkt_residuals(
        KktGradients(retain=ours.held, lagrangian=both.proximal),
        dual=dual,
        threshold=gamma,
        forgetting=score[0],
        tolerance=terms.tolerance,
    )
    return asdict(residuals)
