"""Extra audits of a request, which need the parameters of the models and not only their outputs.

The audits restore one party's original parameters, measure distances between parameters, relearn
D_u, train shadow models, and try to reconstruct a forgotten row. The audits change the current
model, so the caller must restore a model after the audits.
"""

from collections.abc import Iterator
from functools import partial
from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.evaluation import RelearnSettings
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import accuracy_on_rows
from parties.vertical.engine.training_loop import DESCEND, BatchLoss, TrainingBatch
from parties.vertical.evaluation.outcomes import ExtraAudits
from parties.vertical.methods.method import PAIRED
from parties.vertical.methods.train_model import train_model
from protocol import vfl_pb2
from unlearning.audit.membership import Outputs, ShadowOutputs
from unlearning.audit.relearning import steps_to_relearn

_ATTACKED = {"forgotten": vfl_pb2.FORGOTTEN, "test": vfl_pb2.TEST}


def run_extra_audits(split_model: SplitModel, chosen: str) -> ExtraAudits:
    """Run the extra audits of the agreement on the delivered model and other saved models.

    The delivered model is saved with the name ``chosen``. All audits except the shadow models need
    saved copies of the delivered model and of the original model; the distances and the relearning
    attack also need the paired Retrain model, and are left out in a run without Retrains. The
    parties save no copies of an ensemble. For an ensemble, only the shadow models are trained.
    """
    plan, retrains = split_model.agreement.evaluation, split_model.agreement.unlearning.retrains
    paired = [PAIRED] if retrains else []
    if not {ORIGINAL, chosen, *paired} <= set(split_model.local_model.slots):
        # An ensemble keeps no copies to exchange or compare.
        return ExtraAudits(shadows=_shadow_outputs(split_model, plan.shadows))
    distances = _distances(split_model, [ORIGINAL, chosen]) if paired else {}
    single = split_model.agreement.labels.task == "classification"  # it measures accuracy
    exchanged = _with_exchanged_parties(split_model, chosen) if plan.completeness and single else {}
    relearned = _relearning(split_model, plan.relearn, [chosen, *paired]) if plan.relearn else {}
    reconstructions = _reconstruction(split_model, [chosen, *paired])
    return ExtraAudits(
        exchanged, distances, relearned, _shadow_outputs(split_model, plan.shadows), reconstructions
    )


def _distances(split_model: SplitModel, slots: list[str]) -> dict[str, dict[str, float | None]]:
    """Parameter distances from the paired Retrain, which started where the original model did.

    Models with other initial weights are far apart, whatever rows they were trained on.
    """
    split_model.restore_copy(PAIRED, ORIGINAL, vfl_pb2.EVALUATE)

    def work() -> dict[str, dict[str, float | None]]:
        return {slot: parameter_distances(split_model, slot) for slot in slots}

    return split_model.once("distances of parameters", dict, work, durable=False)


def parameter_distances(split_model: SplitModel, slot: str) -> dict[str, float | None]:
    """Distance of each party's parameters from its saved copy ``slot``; None if shapes differ."""
    command = vfl_pb2.ModelCommand(report_norms=vfl_pb2.ReportNorms(slot=slot))
    return {
        name: sqrt(report.distance_square) if report.HasField("distance_square") else None
        for name, report in split_model.command_all(vfl_pb2.EVALUATE, command).items()
    }


def _with_exchanged_parties(split_model: SplitModel, chosen: str) -> dict[str, dict[str, Tensor]]:
    """The delivered model with the original parameters at one party at a time."""
    split_model.restore_copy(chosen, ORIGINAL, vfl_pb2.EVALUATE)
    results = {}
    for name in (*split_model.agreement.passive, split_model.party.name):
        restore_party(split_model, name, ORIGINAL)
        read = partial(_read, split_model)
        results[name] = split_model.once(
            f"{name} exchanged", dict[str, Tensor], read, durable=False
        )
        restore_party(split_model, name, chosen)
    return results


def restore_party(split_model: SplitModel, party: str, slot: str) -> None:
    """Let ``party`` restore its saved copy with the name ``slot``; other parties do nothing."""
    restore = vfl_pb2.RestoreCopy(slot=slot, stream=split_model.stream)
    split_model.command_party(party, vfl_pb2.EVALUATE, vfl_pb2.ModelCommand(restore_copy=restore))


def _read(split_model: SplitModel) -> dict[str, Tensor]:
    return {part: split_model.logits(rows) for part, rows in _ATTACKED.items()}


def _relearning(
    split_model: SplitModel, plan: RelearnSettings, slots: list[str]
) -> dict[str, list[int]]:
    split_model.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.EVALUATE)
    goal = split_model.once(
        "the original on D_u",
        float,
        lambda: accuracy_on_rows(split_model, vfl_pb2.FORGOTTEN),
        durable=False,
    )
    return {
        slot: [
            _relearning_steps(split_model, plan, slot, order, goal)
            for order in range(1, plan.orders + 1)
        ]
        for slot in dict.fromkeys(slots)
    }


def _relearning_steps(
    split_model: SplitModel, plan: RelearnSettings, slot: str, order: int, goal: float
) -> int:
    """Number of steps in which one model relearns D_u with one order of its rows."""
    rule = UpdateRule("sgd", plan.learning_rate)
    split_model.restore_copy(slot, f"relearn-{order}", vfl_pb2.RELEARN, rule)
    split_model.party.progress.phase(f"{slot} learns again, order {order}", plan.max_steps)

    def work() -> int:
        return steps_to_relearn(_accuracies(split_model, plan), goal, plan.max_steps)

    return split_model.once(f"{slot} learns again, order {order}", int, work)


def _accuracies(split_model: SplitModel, plan: RelearnSettings) -> Iterator[float]:
    """The accuracy on D_u before each step; ends if numbers are not finite."""
    epoch = 0
    while True:
        epoch += 1
        for request in split_model.loop.epoch_requests(vfl_pb2.FORGOTTEN, epoch, plan.batch):
            accuracy = accuracy_on_rows(split_model, vfl_pb2.FORGOTTEN, vfl_pb2.RELEARN)
            if split_model.diverged:
                return
            yield accuracy
            split_model.loop.run_batches(vfl_pb2.RELEARN, [request], _training_loss)


def _training_loss(batch: TrainingBatch) -> BatchLoss:
    return BatchLoss(cross_entropy(batch.logits, batch.labels), DESCEND)


def _reconstruction(
    split_model: SplitModel, slots: list[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """For a request of one row: how much the parties' changes would reveal, if published."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    if len(split_model.rows.forgotten) != 1:
        return results
    for slot in slots:
        split_model.restore_copy(slot, ORIGINAL, vfl_pb2.EVALUATE)
        work = partial(reconstruction_attacks, split_model, ORIGINAL)
        results[slot] = split_model.once(f"{slot} inverted", dict, work, durable=False)
    return results


def reconstruction_attacks(split_model: SplitModel, slot: str) -> dict[str, dict[str, float]]:
    """Measure for each party how well the change of its parameters reveals the forgotten row.

    D_u must have exactly one row. The change is the difference from the saved copy with the name
    ``slot``. For each party, the result contains two measures, ``cosine`` and ``rank``. A party is
    left out if the input of the first layer of its network is not a whole row.
    """
    invert = vfl_pb2.ModelCommand(test_reconstruction=vfl_pb2.TestReconstruction(slot=slot))
    return {
        name: {"cosine": report.cosine, "rank": report.rank}
        for name, report in split_model.command_all(vfl_pb2.EVALUATE, invert).items()
        if report.HasField("rank")
    }


def _shadow_outputs(split_model: SplitModel, count: int) -> list[ShadowOutputs]:
    """Outputs of shadow models, each trained on its own half of D_r."""
    results = []
    for number in range(1, count + 1):
        stream = f"shadow-{number}"
        train_model(split_model, vfl_pb2.SHADOW_HALF, stream, stream)
        members, others = (
            _outputs(split_model, rows, f"{stream} on {name}")
            for name, rows in (
                ("its half", vfl_pb2.SHADOW_HALF),
                ("the other", vfl_pb2.SHADOW_OTHER_HALF),
            )
        )
        results.append(ShadowOutputs(members, others))
    return results


def _outputs(split_model: SplitModel, rows: vfl_pb2.Rows, name: str) -> Outputs:
    read = partial(split_model.logits, rows)
    labels = split_model.labels[torch.from_numpy(split_model.rows.select(rows))]
    return Outputs(split_model.once(name, Tensor, read), labels)
