"""FedORA's counterfactual targets: what models without D_u would say about its rows.

1. Every party alone fits a fresh bottom model to codes of its own remaining rows, as in a training
   with a local start. No label and no row of D_u takes part.
2. The embeddings of D_r, D_u and of the rows of a validation cross once.
3. The active party alone fits two top models from one initialisation: h⁺ on D and h⁻ on D_r. Both
   are used as they were after the epoch in which h⁺ was as confident as the model to unlearn, on
   validation rows. The number of epochs of the training would not do: the embeddings of the model
   learned from labels, which those of step 2 did not, and earlier requests trained it further.
4. The targets follow from the outputs of both, and of the model to unlearn, on D_u
   (``unlearning/counterfactual.py``).
5. The same on validation rows, which no model has learned, tells how far the model to unlearn is
   from such targets where there is nothing to forget.

If a request corrects labels, D_u stays in D_r: h⁺ learns the labels that the model learned, and h⁻
the corrected ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Final

import numpy as np
import torch
from torch import Tensor

from configs.agreement import MlpTop
from configs.local_start import LocalStartSettings
from models.ensemble import Ensemble
from models.initialisation import build_seeded
from models.tops import ConcatHead
from parties.common.shared_randomness import torch_seed
from parties.vertical.methods.local_start import FIT, train_local_start
from parties.vertical.methods.run import VerticalRun
from protocol import vfl_pb2
from unlearning.counterfactual import (
    confidence,
    counterfactual_targets,
    label_scores,
    matched_epoch,
)

STREAM: Final = "reference of fedora"  # random stream of the reference models
TOP_RATE: Final = 2e-3  # learning rate of the reference tops, which adam carries out
MOST_EPOCHS: Final = 3  # of the reference tops, as a multiple of those of the training
REFERENCE: Final = LocalStartSettings(joint_epochs=0.0)  # of the bottoms of the reference


@dataclass(frozen=True, slots=True)
class CounterfactualTargets:
    """The targets of each model on its D_u, in index order."""

    log_targets: list[Tensor]  # log q of each model, [forgotten, classes]
    # The divergence c of each trained model on validation rows: what the constraint cannot tell
    # from a row that was never learned.
    unlearned: list[float]


def find_targets(run: VerticalRun, validated: Sequence[Tensor]) -> CounterfactualTargets:
    """Compute the counterfactual targets; afterwards the models are those of the local fit.

    Args:
        run: the models to unlearn.
        validated: the logits of each model on its first validation rows, [validated_rows, classes].
    """
    read = partial(run.logits, vfl_pb2.FORGOTTEN)
    trained = run.once("outputs of the trained model on D_u", list[Tensor], read)
    train_local_start(run, REFERENCE, STREAM, FIT)
    work = partial(_targets, run, trained, validated)
    return run.once("targets of FedORA", CounterfactualTargets, work)


def remaining_classes(run: VerticalRun, rows: int) -> Tensor:
    """Which of the first ``rows`` validation rows have a class that remains in D_r, [rows].

    A model should not predict a class that is forgotten as a whole. If no row has a class that
    remains, all of them count.
    """
    sets = run.sets[0]
    remaining = torch.unique(run.labels[sets.retain])
    found = torch.isin(run.labels[sets.validation[:rows]], remaining)
    return found if bool(found.any()) else torch.ones_like(found)


def _targets(
    run: VerticalRun, trained: Sequence[Tensor], validated: Sequence[Tensor]
) -> CounterfactualTargets:
    """The targets of models with these logits on D_u and on the first validation rows.

    Both are [rows, classes] of each model.
    """
    tops = _ReferenceTops(run, run.embeddings(vfl_pb2.TRAIN_ROWS))
    others = run.embeddings(vfl_pb2.VALIDATION, len(validated[0]))
    planned = run.agreement.training.epochs
    fitted, epochs = _fit_as_confident(tops, others, validated, planned)
    inputs = [tops.forgotten, others]
    plus = tops.outputs(_of_epochs(fitted, epochs), inputs)
    fitted = list(islice(tops.fit(without=True), max(epochs) + 1))
    minus = tops.outputs(_of_epochs(fitted, epochs), inputs)
    counted = remaining_classes(run, len(validated[0]))
    forgotten, targets = (
        [counterfactual_targets(*each) for each in zip(*logits, strict=True)]
        for logits in zip((trained, validated), plus, minus, strict=True)
    )
    divergences = [
        -label_scores(target, logits, run.labels[sets.validation[: len(logits)]])[counted]
        for target, logits, sets in zip(targets, validated, run.sets, strict=True)
    ]
    return CounterfactualTargets(forgotten, [each.mean().item() for each in divergences])


def _fit_as_confident(
    tops: "_ReferenceTops", others: Tensor, validated: Sequence[Tensor], planned: int
) -> tuple[list[Ensemble], list[int]]:
    """h⁺ after each epoch, and the epoch, counted from 0, that is used for each model.

    Args:
        tops: the reference tops.
        others: the reference's embeddings of validation rows, [N, rows, width].
        validated: the logits of each model to unlearn on the same rows, [rows, classes].
        planned: the number of epochs of the training.
    """
    wanted = [confidence(each) for each in validated]
    fitted: list[Ensemble] = []
    found: list[list[float]] = []
    for models in islice(tops.fit(without=False), MOST_EPOCHS * planned):
        fitted.append(models)
        (outputs,) = tops.outputs(models, [others])
        found.append([confidence(each) for each in outputs])
        later = np.array(found[planned - 1 :])  # [epochs, N]
        if len(later) and (later.max(axis=0) > wanted).all():
            break
    of_models = zip(wanted, zip(*found, strict=True), strict=True)
    return fitted, [matched_epoch(model, of_one, planned) for model, of_one in of_models]


def _of_epochs(fitted: Sequence[Ensemble], epochs: Sequence[int]) -> Ensemble:
    """The tops of each model after its number of ``epochs``."""
    chosen = fitted[-1].copy()
    for number, epoch in enumerate(epochs):
        chosen.copy_model(fitted[epoch], number)
    return chosen


class _ReferenceTops:
    """The top models of each model's reference, which the active party fits alone."""

    def __init__(self, run: VerticalRun, embeddings: Tensor) -> None:
        """Use the ``embeddings`` of all training rows, [N, rows, width], in index order."""
        self._agreement, self._embeddings, self._target = run.agreement, embeddings, run.target
        self._streams = run.streams(STREAM)
        train = [torch.from_numpy(sets.train) for sets in run.sets]
        learned = torch.stack([run.learned_labels[rows] for rows in train])
        self._labels = {False: learned, True: torch.stack([run.labels[rows] for rows in train])}
        weights = [run.weights_of(sets.train) for sets in run.sets]
        known = [each for each in weights if each is not None]
        self._weights = torch.stack(known) if known else None
        self._corrects = run.sets[0].corrects
        found = [np.searchsorted(sets.train, sets.forgotten) for sets in run.sets]
        self._forgotten = torch.from_numpy(np.stack(found))

    @property
    def forgotten(self) -> Tensor:
        """The embeddings of each model's D_u, [N, forgotten, width]."""
        return self._at(self._forgotten)

    def fit(self, *, without: bool) -> Iterator[Ensemble]:
        """Tops trained on D, or ``without`` D_u: copies of them after each epoch, without an end.

        If the request corrects labels, ``without`` means with the corrected labels of D_u. The
        batches have the size of those of the model to unlearn.
        """
        models, optimiser = self._fresh()
        for epoch in count():
            orders = self._orders(epoch, without=without and not self._corrects)
            self._train(models, optimiser, orders, self._labels[without])
            yield models.copy()

    @staticmethod
    def outputs(models: Ensemble, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The logits of ``models``, [N, rows, classes], on each of ``inputs``.

        ``inputs`` are embeddings of rows, [N, rows, width] each.
        """
        with torch.no_grad():
            return [models([each]) for each in inputs]

    def _train(
        self, models: Ensemble, optimiser: torch.optim.Optimizer, orders: Tensor, labels: Tensor
    ) -> None:
        """One epoch in the given orders, [N, rows], with the ``labels`` of D, [N, rows]."""
        chosen = models.with_prefix()
        for places in torch.split(orders, self._agreement.training.batch, dim=1):
            logits, truth = models([self._at(places)]), labels.gather(1, places)
            weights = None if self._weights is None else self._weights.gather(1, places).flatten()
            flat = logits.flatten(0, 1)
            losses = self._target.loss(flat, truth.flatten(), "none", weights)
            optimiser.zero_grad()
            losses.view(truth.shape).mean(dim=1).sum().backward(inputs=chosen)  # type: ignore[no-untyped-call]
            optimiser.step()

    def _orders(self, epoch: int, *, without: bool) -> Tensor:
        """Random orders of the training rows, without D_u where wanted, [N, rows].

        The remaining rows have the same order with and without D_u.
        """
        orders = []
        for stream, forgotten in zip(self._streams, self._forgotten, strict=True):
            seed = torch_seed(self._agreement.seed, "reference order", stream, epoch)
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(self._embeddings.shape[1], generator=generator)
            orders.append(order[~torch.isin(order, forgotten)] if without else order)
        return torch.stack(orders)

    def _at(self, places: Tensor) -> Tensor:
        """The embeddings of each model at ``places``, [N, batch]: [N, batch, width]."""
        return self._embeddings.gather(
            1, places[..., None].expand(-1, -1, self._embeddings.shape[2])
        )

    def _fresh(self) -> tuple[Ensemble, torch.optim.Optimizer]:
        """Fresh tops, the same in every call, and their optimiser."""
        agreed = self._agreement
        hidden = agreed.top.hidden if isinstance(agreed.top, MlpTop) else ()
        width, classes = self._embeddings.shape[2], len(agreed.labels.classes)

        def build() -> ConcatHead:
            return ConcatHead([width], hidden, classes)

        models = Ensemble.of(
            [
                build_seeded(torch_seed(agreed.seed, "reference weights", stream), build).to(
                    self._embeddings.dtype
                )
                for stream in self._streams
            ]
        )
        return models, torch.optim.Adam(models.with_prefix(), TOP_RATE)
