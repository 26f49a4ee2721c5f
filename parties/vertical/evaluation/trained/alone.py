"""What the active party reaches without the others: a model of its own columns, trained by itself.

It has the same kind of bottom and top model, the same optimiser, number of epochs, early stopping,
shards and split of the rows as the joint training from random weights. No message is sent, and all
random streams are its own, so the joint training does not change.
"""

from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs.agreement import MlpTop, ModuleTop
from models.arithmetic import all_finite, restore, snapshot
from parties.common.shared_randomness import Index, torch_seed
from parties.report.record import AloneFigures, GainFigure
from parties.vertical.engine.features import ModelInputs
from parties.vertical.engine.networks import build_active_network
from parties.vertical.engine.optimiser import build_optimiser
from parties.vertical.engine.rows import Batches, shuffled_requests
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import (
    EpochResult,
    best_epoch,
    share_correct,
    training_rule,
    validated_epoch,
)
from protocol import vfl_pb2
from unlearning.audit.classifier import Gain, paired_gains, roc_auc
from unlearning.audit.membership import Outputs
from unlearning.audit.targets import number_figures, paired_number_gains
from unlearning.sharding import mean_shard_logits

STREAM = "alone"
NEWTON_STEPS = 500  # largest number of L-BFGS iterations to the optimum of a convex model
SLOW = (
    "training it would have kept the other parties waiting: it was stopped after half of "
    "limits.idle_seconds"
)
SEVERAL_LABELS = "it is not measured for several binary labels"
DIVERGED = "its training diverged: the loss or a parameter is not finite"


def alone_figures(split_model: SplitModel, joint: Outputs) -> AloneFigures:
    """Train the active party's own model, and compare it with the joint model's test outputs.

    An active party without features predicts the most frequent class, or the mean of a number. For
    several binary labels there is no such model, and the result has the reason.
    """
    name, began = split_model.party.name, monotonic()
    inputs = split_model.local_model.model.inputs
    columns = inputs is not None
    if split_model.agreement.labels.task == "multilabel":
        return AloneFigures(party=name, columns=columns, seconds=0.0, absent=SEVERAL_LABELS)
    logits = _constant(split_model) if inputs is None else _own_model(split_model, inputs)
    seconds = monotonic() - began
    if isinstance(logits, str):
        return AloneFigures(party=name, columns=columns, seconds=seconds, absent=logits)
    own = Outputs(logits, joint.labels)
    seed = torch_seed(split_model.agreement.seed, "resamples", STREAM, name)
    if split_model.agreement.labels.task == "regression":
        found, brings = number_figures(own).values, paired_number_gains(joint, own, seed)
        figures: dict[str, Any] = {"r2": found.get("r2"), "mae": found.get("mae")}
        figures |= {"gain_r2": _gain(brings["r2"]), "gain_mae": _gain(brings["mae"])}
    else:
        gains = paired_gains(joint.logits, logits, joint.labels, seed)
        figures = {"auc": roc_auc(own), "accuracy": share_correct(logits, joint.labels)}
        figures |= {"gain_auc": _gain(gains.auc), "gain_accuracy": _gain(gains.accuracy)}
    return AloneFigures(party=name, columns=columns, seconds=seconds, **figures)


def _gain(gain: Gain) -> GainFigure:
    return GainFigure(value=gain.value, ci95=gain.ci95)


def _constant(split_model: SplitModel) -> Tensor:
    """Outputs that are equal for all test rows, [rows, outputs].

    They are the frequencies of the classes in training rows, or the mean of the number.
    """
    classes = len(split_model.agreement.labels.classes)
    learned = split_model.labels[split_model.rows.train]
    if not classes:
        return learned.double().mean().expand(len(split_model.rows.test), 1)
    counts = torch.bincount(learned, minlength=classes).double()
    return counts.expand(len(split_model.rows.test), classes)


def _own_model(split_model: SplitModel, inputs: ModelInputs) -> Tensor | str:
    """Test outputs, [rows, classes], of the party's own model; a text says why there are none."""
    agreement, state = split_model.agreement, split_model.state
    split_model.party.progress.phase("own columns alone")
    deadline = monotonic() + agreement.limits.idle_seconds / 2
    found = []
    for shard in range(agreement.sharding.shards):
        rows, words = state.rows, None
        if agreement.sharding.shards > 1:
            rows = rows.restricted(np.flatnonzero(state.shards == shard))
            words = state.features.row_words()
        batches = Batches(rows, f"{STREAM}/{shard}", words)
        training = OwnTraining(split_model, inputs, batches)
        failure = training.run(deadline)
        if failure:
            return failure
        found.append(training.logits(rows.test))
    return mean_shard_logits(found)


class OwnTraining:
    """The training of a model of the active party's columns only."""

    def __init__(self, split_model: SplitModel, inputs: ModelInputs, batches: Batches) -> None:
        """Start from random weights; ``batches`` gives the rows and their order in each epoch."""
        agreement, name = split_model.agreement, split_model.party.name
        # Only the network reads it: a top model over the embeddings of this party alone.
        # An own top model reads embeddings of all parties, so the default one takes its place.
        top = MlpTop() if isinstance(agreement.top, ModuleTop) else agreement.top
        own = {"parties": {name: agreement.parties[name]}, "top": top}
        alone = agreement.model_copy(update=own)
        party = replace(split_model.party, agreement=alone)
        self._agreement, self._inputs, self._batches = agreement, inputs, batches
        self._split_model = split_model
        self._network = build_active_network(party, batches.stream, inputs)
        # The standardisation of a number is that of the joint model: of the same training rows.
        self._network.target.load_state_dict(split_model.target.state_dict())
        self._parameters = [*self._network.parameters()]

    def run(self, deadline: float) -> str | None:
        """Train until the time ``deadline``; return why there is no model, else None."""
        if self._agreement.training.optimiser == "newton-cg":
            self._solve()
        elif not self._train(deadline):
            return SLOW
        return None if all_finite(self._parameters) else DIVERGED

    @torch.no_grad()
    def logits(self, rows: Index) -> Tensor:
        """Outputs of the model for the common rows ``rows``, [rows]: [rows, classes]."""
        parts = torch.split(torch.from_numpy(rows), self._agreement.limits.pass_rows)
        return torch.cat([self._outputs(part) for part in parts])

    def _outputs(self, rows: Tensor) -> Tensor:
        found: Tensor = self._network([self._network.embed(self._inputs.values[rows])])
        return found

    def _train(self, deadline: float) -> bool:
        """Train in epochs; return whether the training ended before ``deadline``."""
        plan, epochs = self._agreement.training, list[EpochResult]()
        optimiser = build_optimiser(training_rule(self._agreement), self._parameters)
        if optimiser is None:
            raise LookupError("the training has no optimiser")
        best = snapshot(self._parameters)
        for number in range(1, plan.epochs + 1):
            if monotonic() > deadline:
                return False
            loss = self._epoch(number, optimiser)
            if plan.patience is None:
                continue
            epochs.append(self._validated(number, loss))
            if best_epoch(epochs) == number:
                best = snapshot(self._parameters)
            elif number - best_epoch(epochs) >= plan.patience:
                break
        if plan.patience is not None:
            restore(self._parameters, best)
        return True

    def _epoch(self, number: int, optimiser: torch.optim.Optimizer) -> float:
        """Train for one epoch, and return the loss of the last batch."""
        count, size = len(self._batches.rows.train), self._agreement.training.batch
        value = 0.0
        for request in shuffled_requests(vfl_pb2.TRAIN_ROWS, count, number, size):
            rows = torch.from_numpy(self._batches.rows_of(request))
            loss = self._loss(rows)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            value = loss.item()
        return value

    def _validated(self, number: int, loss: float) -> EpochResult:
        rows = self._batches.rows.validation
        model, target = self._split_model, self._network.target
        validation, weights = Outputs(self.logits(rows), model.labels[rows]), model.weights_of(rows)
        result = EpochResult(number, loss)
        return validated_epoch(self._agreement, target, result, validation, weights)

    def _loss(self, rows: Tensor) -> Tensor:
        """The loss on the common ``rows``, [rows], with the weights of the joint model."""
        weights = self._split_model.weights_of(rows.numpy())
        labels = self._split_model.labels[rows]
        return self._network.target.loss(self._outputs(rows), labels, weights=weights)

    def _solve(self) -> None:
        """Minimise the convex loss with the agreed penalty, as the Newton training does."""
        rows = torch.from_numpy(self._batches.rows.train)
        solver = torch.optim.LBFGS(
            self._parameters,
            max_iter=NEWTON_STEPS,
            tolerance_grad=self._agreement.newton.bound * self._agreement.newton.weight,
            line_search_fn="strong_wolfe",
        )
        solver.step(partial(self._penalised, solver, rows))  # type: ignore[no-untyped-call]

    def _penalised(self, solver: torch.optim.Optimizer, rows: Tensor) -> float:
        solver.zero_grad()
        squares = torch.stack([each.square().sum() for each in self._parameters]).sum()
        loss = self._loss(rows)
        loss = loss + self._agreement.newton.weight / 2 * squares
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()
