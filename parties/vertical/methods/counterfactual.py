"""FedORA's counterfactual targets: what models without D_u would say about its rows.

1. Every party alone fits a fresh bottom model to codes of its own remaining rows, as in a training
   with a local start. No label and no row of D_u takes part.
2. The embeddings of three quarters of D_r, of D_u and of validation rows cross once.
3. The active party alone fits two top models from one initialisation, in the same batches: h⁺ on
   these rows of D_r and on D_u, and h⁻ on those of D_r alone. Earlier requests may have trained the
   model further; with a low learning rate h⁺ would remember less than such a model, so the rate is
   high. Where h⁺ then remembers more than the model, both are used as they were after the epoch
   after which it remembered most nearly as much (``EpochChoice``).
4. The targets follow from the outputs of both, and of the model to unlearn, on D_u
   (``unlearning/counterfactual.py``).
5. The same on validation rows, which no model has learned, tells how far the model to unlearn is
   from such targets where there is nothing to forget.

If a request corrects labels, D_u stays in D_r: h⁺ learns the labels that the model learned, and h⁻
the corrected ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from configs.agreement import MlpTop
from configs.local_start import LocalStartSettings
from models.arithmetic import all_within
from models.ensemble import Ensemble
from models.initialisation import build_seeded
from models.tops import ConcatHead
from parties.common.shared_randomness import torch_seed
from parties.vertical.engine.rows import part_of
from parties.vertical.methods.local_start import FIT, train_local_start
from parties.vertical.methods.run import VerticalRun
from protocol import vfl_pb2
from unlearning.counterfactual import EpochChoice, counterfactual_targets, label_scores

STREAM: Final = "reference of fedora"  # random stream of the reference models
TOP_RATE: Final = 6e-3  # learning rate of the reference tops, which adam carries out
LEARNED: Final = 0.75  # share of D_r that the reference tops learn
# Rows of D_r that tell how well the model and h⁺ remember rows: the largest of these numbers that
# is at most half of the validation rows, or else the smallest of them.
SAMPLED: Final = (256, 128, 64, 32)
REFERENCE: Final = LocalStartSettings(joint_epochs=0.0)  # of the bottoms of the reference


@dataclass(frozen=True, slots=True)
class CounterfactualTargets:
    """The targets of each model on its D_u, in index order."""

    log_targets: list[Tensor]  # log q of each model, [forgotten, classes]
    # The divergence c of each trained model on validation rows: what the constraint cannot tell
    # from a row that was never learned; 0 without validation rows.
    unlearned: list[float]

    bounded: bool = True  # whether all embeddings are at most limits.magnitude

    @property
    def usable(self) -> bool:
        """Whether the embeddings are bounded, and all numbers finite."""
        finite = [bool(each.isfinite().all()) for each in self.log_targets]
        return self.bounded and all(finite) and all(map(math.isfinite, self.unlearned))


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
    learned = part_of(LEARNED, run.row_count(vfl_pb2.RETAIN))
    references = References(run, max(learned, len(own.kept[0])))
    others = run.embeddings(vfl_pb2.VALIDATION, len(own.validated[0]))
    chosen = _fit_like_the_model(run, own, references, others)
    counted = remaining_classes(run, len(own.validated[0]))
    forgotten, targets = (
        [
            counterfactual_targets(*each)
            for each in zip(logits, *references.outputs(chosen, inputs), strict=True)
        ]
        for logits, inputs in ((own.forgotten, references.forgotten), (own.validated, others))
    )
    divergences = [
        -label_scores(target, logits, run.labels[sets.validation[: len(logits)]])[counted]
        for target, logits, sets in zip(targets, own.validated, run.sets, strict=True)
    ]
    unlearned = [each.mean().item() if len(each) else 0.0 for each in divergences]
    # Passive parties check their own embeddings; the active party's are checked only here.
    bounded = all_within([references.embeddings, others], run.agreement.limits.magnitude)
    return CounterfactualTargets(forgotten, unlearned, bounded)


def _fit_like_the_model(
    run: VerticalRun, own: _Outputs, references: "References", others: Tensor
) -> Ensemble:
    """Fit h⁺ and h⁻; return both as they were after the epoch that is used for each model.

    Args:
        run: the models to unlearn.
        own: their outputs.
        references: h⁺ and h⁻ of each model.
        others: the reference's embeddings of the validation rows, [N, rows, width].
    """
    choices = []
    for kept, validated, sets in zip(own.kept, own.validated, run.sets, strict=True):
        rows = (sets.retain[: len(kept)], sets.validation[: len(validated)])
        labels = (run.learned_labels[rows[0]], run.learned_labels[rows[1]])
        choices.append(EpochChoice((kept, validated), labels))
    remembered = references.first_of_retain(len(own.kept[0]))
    chosen = references.models.copy()
    epochs = run.agreement.training.epochs
    run.progress.phase(STREAM, epochs)
    for epoch in range(epochs):
        references.fit(epoch)
        run.progress.step()
        learned, unseen = (
            references.outputs(references.models, each)[0] for each in (remembered, others)
        )
        for number, choice in enumerate(choices):
            if choice.suits((learned[number], unseen[number]), last=epoch == epochs - 1):
                chosen.copy_model(references.models, number)
                chosen.copy_model(references.models, number + len(choices))
    return chosen


class References:
    """h⁺ and h⁻ of each model, top models that the active party fits alone.

    Attributes:
        models: h⁺ of all N models, and then h⁻ of all N models.
        embeddings: of the rows that one of them learns, [N, rows, width]: rows of D_r, then D_u.
        labels: the label of each row that one of them learns, [2 N, rows]: rows of D_r, then D_u.
        learns: 1 for the rows that a model learns, and 0 for the others, [2 N, rows].
    """

    def __init__(self, run: VerticalRun, count: int) -> None:
        """Read the embeddings of the first ``count`` rows of D_r, in index order, and of D_u.

        The common order of the rows is random, so that the first rows are a random part of D_r;
        rows that joined in a later training follow the others.
        """
        self._agreement, self._streams = run.agreement, run.streams(STREAM)
        self._target = run.target
        read = [run.embeddings(vfl_pb2.RETAIN, count), run.embeddings(vfl_pb2.FORGOTTEN)]
        self._retained = read[0].shape[1]  # the number of rows of D_r; those of D_u follow
        self.embeddings = torch.cat(read, dim=1)  # [N, rows, width]
        rows = [np.concatenate([sets.retain[:count], sets.forgotten]) for sets in run.sets]
        learned = [run.learned_labels[each] for each in rows]
        self.labels = torch.stack([*learned, *(run.labels[each] for each in rows)])
        weights = [run.weights_of(each) for each in rows]
        known = [each for each in weights if each is not None]
        self._weights = torch.stack(known * 2) if known else None
        self.learns = torch.ones(self.labels.shape, dtype=self.embeddings.dtype)
        if run.sets[0].corrects:  # D_u is a part of D_r as well, but is learned once
            twice = [np.isin(sets.retain[:count], sets.forgotten) for sets in run.sets]
            self.learns[:, : self._retained][torch.from_numpy(np.stack(twice * 2))] = 0.0
        else:
            self.learns[len(rows) :, self._retained :] = 0.0
        self.models = self._fresh()
        self._optimiser = torch.optim.Adam(self.models.with_prefix(), TOP_RATE)

    @property
    def forgotten(self) -> Tensor:
        """The embeddings of each model's D_u, [N, forgotten, width]."""
        return self.embeddings[:, self._retained :]

    def first_of_retain(self, count: int) -> Tensor:
        """The embeddings of the first ``count`` rows of each model's D_r, [N, count, width]."""
        return self.embeddings[:, :count]

    def fit(self, epoch: int) -> None:
        """Train the models for an ``epoch``, counted from 0.

        The batches have the size of those of the model to unlearn; h⁻ leaves out the rows of D_u,
        or learns their corrected labels. In a batch of D_u alone, only the momentum moves h⁻.
        """
        chosen = self.models.with_prefix()
        for places in torch.split(self._orders(epoch), self._agreement.training.batch, dim=1):
            logits, both = self._logits(self.models, self._at(places)), places.repeat(2, 1)
            truth, learns = self.labels.gather(1, both), self.learns.gather(1, both)
            weights = None if self._weights is None else self._weights.gather(1, both).flatten()
            losses = self._target.loss(logits.flatten(0, 1), truth.flatten(), "none", weights)
            sums = (losses.view(truth.shape) * learns).sum(dim=1)
            self._optimiser.zero_grad()
            (sums / learns.sum(dim=1).clamp(min=1.0)).sum().backward(inputs=chosen)  # type: ignore[no-untyped-call]
            self._optimiser.step()

    def outputs(self, models: Ensemble, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of h⁺ and h⁻ in ``models``, [N, rows, classes] each.

        ``inputs`` are embeddings of rows, [N, rows, width].
        """
        with torch.no_grad():
            plus, minus = torch.split(self._logits(models, inputs), len(inputs))
        return plus, minus

    @staticmethod
    def _logits(models: Ensemble, inputs: Tensor) -> Tensor:
        """The logits of ``models``, [2 N, rows, classes], on embeddings [N, rows, width]."""
        return models.part("perceptron", inputs.repeat(2, 1, 1))

    def _orders(self, epoch: int) -> Tensor:
        """Random orders of the rows, [N, rows]."""
        orders = []
        for stream in self._streams:
            seed = torch_seed(self._agreement.seed, "reference order", stream, epoch)
            generator = torch.Generator().manual_seed(seed)
            orders.append(torch.randperm(self.embeddings.shape[1], generator=generator))
        return torch.stack(orders)

    def _at(self, places: Tensor) -> Tensor:
        """The embeddings of each model at ``places``, [N, batch]: [N, batch, width]."""
        return self.embeddings.gather(1, places[..., None].expand(-1, -1, self.embeddings.shape[2]))

    def _fresh(self) -> Ensemble:
        """Fresh top models; h⁺ and h⁻ of a model are the same."""
        agreed = self._agreement
        hidden = agreed.top.hidden if isinstance(agreed.top, MlpTop) else ()
        width, classes = self.embeddings.shape[2], len(agreed.labels.classes)

        def build() -> ConcatHead:
            return ConcatHead([width], hidden, classes)

        seeds = [torch_seed(agreed.seed, "reference weights", each) for each in self._streams]
        networks = [build_seeded(seed, build).to(self.embeddings.dtype) for seed in seeds * 2]
        return Ensemble.of(networks)
