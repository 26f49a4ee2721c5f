"""The loss of one step: what a client with forgotten texts descends, and what the others do."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, assert_never

import torch
from torch import Tensor

from parties.horizontal.local.local_task import Unteachable
from parties.horizontal.local.text_task import TextLesson
from parties.language.engine.base_model import Room
from parties.language.engine.micro_batches import Piece
from parties.language.texts.batches import Batch
from unlearning.llm.forgetting_scores import Preference, preference_scores
from unlearning.llm.gradient_ascent import gradient_ascent
from unlearning.llm.likelihood import Nll, sequence_nll
from unlearning.llm.npo import npo
from unlearning.llm.primal_dual import init, lagrangian
from unlearning.llm.retain import kl_reference_model, retain_nll, weighted
from unlearning.llm.rmu import rmu_forget, rmu_retain, steering
from unlearning.llm.simnpo import simnpo


@dataclass(frozen=True)
class Forgetting:
    """What a lesson that forgets needs beside its batches.

    Attributes:
        before: the model before unlearning, ``[d]``, a frozen twin of which is made on demand.
        seed: of RMU's direction, the same at all clients.
    """

    room: Room
    lesson: TextLesson
    before: Tensor
    seed: int

    def loss(self, piece: Piece) -> Tensor:
        """The scalar to descend, or a piece's part of it; without ``retain`` its term is absent.

        Raises:
            Unteachable: RMU's layer is not there.
        """
        model, forget = self.room.model, piece.forget
        plan = replace(
            self.lesson,
            gamma=self.lesson.gamma * piece.forgets,
            alpha=self.lesson.alpha * piece.retains,
            price=self.lesson.price * piece.forgets,
        )
        match plan.objective:
            case "learn":
                found = piece.forgets * retain_nll(nll(model, forget))
            case "grad-ascent":
                found = piece.forgets * gradient_ascent(nll(model, forget))
            case "grad-diff":
                found = self._beside(gradient_ascent(nll(model, forget)), piece, plan)
            case "npo":
                reference = nll(self._twin, forget, taught=False).total
                found = self._beside(npo(nll(model, forget), reference, plan.beta), piece, plan)
            case "simnpo":
                away = simnpo(nll(model, forget), plan.beta, plan.delta)
                found = self._beside(away, piece, plan)
            case "rmu":
                found = self._misdirected(piece, plan)
            case "primal-dual":
                found = self._priced(piece, plan)
            case _:
                assert_never(plan.objective)
        return found

    def _priced(self, piece: Piece, plan: TextLesson) -> Tensor:
        shape = Preference(ceiling=plan.ceiling)
        scores = preference_scores(nll(self.room.model, piece.forget), shape)
        dual = init(0.0, plan.ceiling, plan.price)  # γ only shifts the loss
        return lagrangian(plan.alpha * self._retained(piece), scores, dual)

    @cached_property
    def _twin(self) -> Any:
        return self.room.twin(self.before)

    def _beside(self, forget: Tensor, piece: Piece, plan: TextLesson) -> Tensor:
        return weighted(forget, self._retained(piece), plan.gamma, plan.alpha)

    def _retained(self, piece: Piece) -> Tensor:
        """The retain term; 0 where a client has nothing that stays, and others hold the model."""
        if piece.retain is None:
            return torch.zeros((), device=self.room.device)
        if self.lesson.retain == "nll":
            return retain_nll(nll(self.room.model, piece.retain))
        ours = _outputs(self.room.model, piece.retain).logits
        with torch.no_grad():
            theirs = _outputs(self._twin, piece.retain).logits
        return kl_reference_model(theirs, ours, piece.retain.labels.to(ours.device))

    def _misdirected(self, piece: Piece, plan: TextLesson) -> Tensor:
        forget, retain = piece.forget, piece.retain
        layers = int(self.room.model.config.num_hidden_layers)
        layer = plan.layer or (layers + 1) // 2
        if layer > layers:
            raise Unteachable(f"layer {layer} of a model that has {layers}")
        lost = _hidden(self.room.model, forget, layer)
        target = steering(lost.shape[2], plan.steering, self.seed).to(lost)
        away = rmu_forget(lost, target, _told(forget, lost))
        if retain is None:
            return plan.gamma * away
        kept = _hidden(self.room.model, retain, layer)
        with torch.no_grad():
            frozen = _hidden(self._twin, retain, layer)
        stays = rmu_retain(kept, frozen, _told(retain, kept))
        return weighted(away, stays, plan.gamma, plan.alpha)


def _told(batch: Batch, like: Tensor) -> Tensor:
    """Where a batch's answers are, ``[batch, tokens]``."""
    return batch.labels.ne(-100).to(like.device)


def nll(model: Any, batch: Batch, *, taught: bool = True) -> Nll:
    """The negative log-likelihoods of a batch's answers; without a gradient if not ``taught``."""
    with torch.set_grad_enabled(taught):
        logits = _outputs(model, batch).logits
        return sequence_nll(logits, batch.labels.to(logits.device))


def _hidden(model: Any, batch: Batch, layer: int) -> Tensor:
    """The outputs of one layer, ``[batch, tokens, width]``."""
    found: Tensor = _outputs(model, batch, output_hidden_states=True).hidden_states[layer]
    return found


def _outputs(model: Any, batch: Batch, **how: bool) -> Any:
    device = next(model.parameters()).device
    return model(
        input_ids=batch.ids.to(device), attention_mask=batch.mask.to(device), use_cache=False, **how
    )
