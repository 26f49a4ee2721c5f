"""Settings that an exact or certified unlearning method does not allow."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.agreement import Bottom, VerticalAgreement


def refuse_broken_guarantees(plan: "VerticalAgreement") -> None:
    """Refuse settings under which an exact or certified method would lose its guarantee.

    Raises:
        ValueError: a setting breaks the guarantee; the message names the setting to use instead.
    """
    if plan.training.optimiser == "newton-cg":
        _refuse_nonconvex(plan)
        _refuse_early_checkpoint(plan)
    if plan.sharding.shards > 1 or plan.training.optimiser == "newton-cg":
        _refuse_fitted_choices(plan)
    if plan.unlearning.method == "newton-cg" and plan.training.optimiser != "newton-cg":
        raise ValueError(
            "unlearning.method = 'newton-cg' needs training.optimiser = 'newton-cg': set this "
            "optimiser, or choose another method"
        )
    sharded = plan.sharding.shards > 1
    if sharded is not (plan.unlearning.method == "sharded"):
        raise ValueError(
            "sharding.shards above 1 needs unlearning.method = 'sharded', and the method "
            "'sharded' needs sharding.shards above 1: change one of the two keys"
        )
    if sharded and plan.unlearning.compare:
        raise ValueError(
            "no baseline works with sharding.shards above 1: set unlearning.compare = []"
        )
    if sharded and plan.training.optimiser == "newton-cg":
        raise ValueError(
            "sharding.shards above 1 and training.optimiser = 'newton-cg' cannot be combined: "
            "remove one of the two keys"
        )


def _refuse_nonconvex(plan: "VerticalAgreement") -> None:
    """The certificate holds for softmax regression over summed votes, in float64."""
    if plan.top.kind != "sum":
        raise ValueError(
            "training.optimiser 'newton-cg' needs a convex loss: set top = { kind = 'sum' }"
        )
    for name, party in plan.feature_parties.items():
        if not _linear(party.bottom):
            raise ValueError(
                f"training.optimiser 'newton-cg' needs linear bottoms: set parties.{name}.bottom "
                f"= {{ kind = 'mlp', hidden = [] }}"
            )
    if plan.dtype != "float64":
        raise ValueError(
            "the certificate of training.optimiser 'newton-cg' needs float64: set dtype = 'float64'"
        )
    if plan.training.overlap != "none":
        raise ValueError(
            "training.optimiser 'newton-cg' does not support overlap: set training.overlap = 'none'"
        )


def _refuse_early_checkpoint(plan: "VerticalAgreement") -> None:
    """Newton's method has no epochs, so there is no early checkpoint."""
    unlearning = plan.unlearning
    if plan.unlearn and unlearning.method == "fedora" and unlearning.fedora.start == "rewind":
        raise ValueError(
            "unlearning.fedora.start = 'rewind' needs an early checkpoint, which "
            "training.optimiser = 'newton-cg' does not save: set unlearning.fedora.start = "
            "'original' or unlearning.method = 'newton-cg'"
        )


def _linear(bottom: "Bottom") -> bool:
    return bottom.kind == "mlp" and not bottom.hidden


def _refuse_fitted_choices(plan: "VerticalAgreement") -> None:
    """Statistics and choices that were made by looking at rows still depend on deleted rows."""
    if plan.preprocessing != "declared":
        raise ValueError(
            "an exact or certified method cannot use fitted statistics, because fitted "
            "statistics depend on the deleted rows: set preprocessing = 'declared'"
        )
    if plan.training.patience is not None:
        raise ValueError(
            "an exact or certified method does not allow early stopping, because the last epoch "
            "would depend on the deleted rows: remove training.patience"
        )
