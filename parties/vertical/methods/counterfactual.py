"""FedORA's counterfactual targets: what models without D_u would say about its rows.

1. Every party alone fits a fresh bottom model to codes of its own remaining rows, as in a training
   with a local start. No label and no row of D_u takes part.
2. The embeddings of D_r, D_u and of the rows of a validation cross once.
3. The active party alone fits two top models from one initialisation: h⁺ on D and h⁻ on D_r. Both
   are used as they were after the epoch after which h⁺ was most like the model (``matched_epoch``).
   The number of epochs of the training would not do: the embeddings of the model learned from
   labels, which those of step 2 did not, and earlier requests trained it further.
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
# Rows of D_r that tell how well the model and h⁺ remember rows: the largest of these numbers that
# is at most half of the validation rows.
SAMPLED: Final = (256, 128, 64, 32)
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
    read = partial(run.logits, vfl_pb2.RETAIN, _sampled(len(validated[0])))
    kept = run.once("outputs of the trained model on some of D_r", list[Tensor], read)
    train_local_start(run, REFERENCE, STREAM, FIT)
    work = partial(_targets, run, _Outputs(trained, validated, kept))
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


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The logits of each model, [rows, classes]."""

    forgotten: Sequence[Tensor]  # on D_u
    validated: Sequence[Tensor]  # on the first validation rows
    kept: Sequence[Tensor]  # on the first rows of D_r


def _sampled(validated: int) -> int:
    """The number of rows of D_r that are compared, for a number of ``validated`` rows."""
    return next((each for each in SAMPLED if each <= validated // 2), SAMPLED[-1])


def _targets(run: VerticalRun, own: _Outputs) -> CounterfactualTargets:
    tops = _ReferenceTops(run, run.embeddings(vfl_pb2.TRAIN_ROWS))
    others = run.embeddings(vfl_pb2.VALIDATION, len(own.validated[0]))
    fitted, epochs = _fit_like_the_model(run, own, tops, others)
    inputs = [tops.forgotten, others]
    plus = tops.outputs(_of_epochs(fitted, epochs), inputs)
    fitted = list(islice(tops.fit(without=True), max(epochs) + 1))
    minus = tops.outputs(_of_epochs(fitted, epochs), inputs)
    counted = remaining_classes(run, len(own.validated[0]))
    forgotten, targets = (
        [counterfactual_targets(*each) for each in zip(*logits, strict=True)]
        for logits in zip((own.forgotten, own.validated), plus, minus, strict=True)
    )
    divergences = [
        -label_scores(target, logits, run.labels[sets.validation[: len(logits)]])[counted]
        for target, logits, sets in zip(targets, own.validated, run.sets, strict=True)
    ]
    return CounterfactualTargets(forgotten, [each.mean().item() for each in divergences])


def _fit_like_the_model(
    run: VerticalRun, own: _Outputs, tops: "_ReferenceTops", others: Tensor
) -> tuple[list[Ensemble], list[int]]:
    """h⁺ after each epoch, and the epoch, counted from 0, that is used for each model.

    Args:
        run: the models to unlearn.
        own: their outputs.
        tops: the reference tops.
        others: the reference's embeddings of the validation rows, [N, rows, width].
    """
    planned = run.agreement.training.epochs
    wanted = [confidence(each) for each in own.validated]
    inputs = [tops.first_of_retain(len(own.kept[0])), others]
    fitted: list[Ensemble] = []
    found: list[list[Tensor]] = []  # after each epoch: on rows of D_r and of the validation
    above = np.zeros(len(wanted), bool)  # which h⁺ became more confident than the model
    for models in islice(tops.fit(without=False), MOST_EPOCHS * planned):
        fitted.append(models)
        found.append(tops.outputs(models, inputs))
        if len(found) >= planned:
            above |= np.array([confidence(each) for each in found[-1][1]]) > wanted
            if above.all():
                break
    epochs = []
    for n, sets in enumerate(run.sets):
        kept, validated = own.kept[n], own.validated[n]
        rows = (sets.retain[: len(kept)], sets.validation[: len(validated)])
        labels = (run.learned_labels[rows[0]], run.learned_labels[rows[1]])
        references = [(learned[n], unseen[n]) for learned, unseen in found]
        epochs.append(matched_epoch((kept, validated), references, labels, planned))
    return fitted, epochs


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
        places = [np.searchsorted(sets.train, sets.retain) for sets in run.sets]
        self._retain = torch.from_numpy(np.stack(places))

    @property
    def forgotten(self) -> Tensor:
        """The embeddings of each model's D_u, [N, forgotten, width]."""
        return self._at(self._forgotten)

    def first_of_retain(self, count: int) -> Tensor:
        """The embeddings of the first ``count`` rows of each model's D_r, [N, count, width]."""
        return self._at(self._retain[:, :count])

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
