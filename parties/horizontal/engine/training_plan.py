"""Round plan of the training of networks, and the server's optimiser from its settings."""

from typing import Any, assert_never

from configs.federated import ServerRule
from configs.horizontal import HorizontalAgreement
from configs.language import LanguageAgreement
from models.server_optimisers import FedAdagrad, FedAdam, FedAvg, FedAvgM, ServerOptimiser
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.local.local_task import LocalTask

ORIGINAL = "original"  # name of the trained model, and of the random stream of the training


def network_training_plan(agreement: HorizontalAgreement, stream: str) -> RoundPlan:
    """Return the round plan of the training or of a Retrain run; ``stream`` names its stream."""
    return training_plan(agreement, stream, momentum=agreement.training.momentum)


def training_plan(
    agreement: HorizontalAgreement | LanguageAgreement, stream: str, **own: Any
) -> RoundPlan:
    """Return the round plan of a training; ``own`` are settings of its mode's local tasks."""
    plan = agreement.training
    task = LocalTask(
        stream=stream,
        epochs=plan.epochs,
        batch=plan.batch,
        learning_rate=plan.learning_rate,
        weight_decay=plan.weight_decay,
        proximal=plan.proximal,
        **own,
    )
    rule = server_rule(plan.rule)
    return RoundPlan(task, plan.rounds, plan.share, plan.decay, rule, agreement.seed)


def server_rule(plan: ServerRule) -> ServerOptimiser:
    """Return the server's optimiser, which applies the mean update to the model."""
    slow = plan.rate or 1e-3
    match plan.kind:
        case "fedavg":
            return FedAvg(plan.rate or 1.0)
        case "fedavgm":
            return FedAvgM(plan.rate or 1.0, plan.momentum)
        case "fedadagrad":
            return FedAdagrad(slow, plan.tau)
        case "fedadam" | "fedyogi":
            yogi = plan.kind == "fedyogi"
            return FedAdam(slow, plan.tau, plan.beta1, plan.beta2, plan.form, yogi)
    assert_never(plan.kind)
