"""What an agreement must not combine with a way to forget that promises something."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.agreement import Agreement, Bottom


def refuse_broken_promises(plan: "Agreement") -> None:
    """Refuse settings under which an exact or certified way would not be one.

    Raises:
        ValueError: names the setting, and the one that goes with it.
    """
    if plan.training.optimiser == "newton-cg":
        _refuse_nonconvex(plan)
        _refuse_early_start(plan)
    if plan.sharding.shards > 1 or plan.training.optimiser == "newton-cg":
        _refuse_memory(plan)
    if plan.unlearning.method == "newton-cg" and plan.training.optimiser != "newton-cg":
        raise ValueError("unlearning.method 'newton-cg' needs training.optimiser = 'newton-cg'")
    sharded = plan.sharding.shards > 1
    if sharded is not (plan.unlearning.method == "sharded"):
        raise ValueError(
            "sharding.shards above 1 and unlearning.method 'sharded' go together: "
            "no other method knows of shards"
        )
    if sharded and plan.unlearning.compare:
        raise ValueError("no baseline works on shards: unlearning.compare = []")
    if sharded and plan.training.optimiser == "newton-cg":
        raise ValueError("sharding and training.optimiser 'newton-cg' are two ways; choose one")


def _refuse_nonconvex(plan: "Agreement") -> None:
    """The certificate holds for softmax regression over summed votes, in float64."""
    if plan.top.kind != "sum":
        raise ValueError(
            "training.optimiser 'newton-cg' needs top = { kind = 'sum' }: it is convex"
        )
    for name, party in plan.feature_parties.items():
        if not _linear(party.bottom):
            raise ValueError(
                "training.optimiser 'newton-cg' needs linear bottoms: "
                f"parties.{name}.bottom = {{ kind = 'mlp', hidden = [] }}"
            )
    if plan.dtype != "float64":
        raise ValueError("training.optimiser 'newton-cg' needs dtype = 'float64': it certifies")
    if plan.training.overlap != "none":
        raise ValueError("training.optimiser 'newton-cg' has no steps to overlap: overlap = 'none'")


def _refuse_early_start(plan: "Agreement") -> None:
    """Newton steps go to the optimum at once: there is no copy from early in training."""
    unlearning = plan.unlearning
    if plan.unlearn and unlearning.method == "fedora" and unlearning.fedora.start == "early":
        raise ValueError(
            "unlearning.fedora.start 'early' begins at a copy from the first epochs, and "
            "training.optimiser 'newton-cg' has none: unlearning.fedora.start = 'original', or "
            "unlearning.method = 'newton-cg'"
        )


def _linear(bottom: "Bottom") -> bool:
    return bottom.kind == "mlp" and not bottom.hidden


def _refuse_memory(plan: "Agreement") -> None:
    """What is chosen by looking at rows remembers them."""
    if plan.preprocessing != "declared":
        raise ValueError(
            "an exact or certified way needs preprocessing = 'declared': "
            "fitted statistics remember the rows"
        )
    if plan.training.patience is not None:
        raise ValueError(
            "an exact or certified way stops at no best epoch, a choice that remembers rows: "
            "leave training.patience out"
        )
