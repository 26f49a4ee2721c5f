"""The loss of one step: what a client with forgotten texts descends, and what the others do."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import torch
from torch import Tensor

from parties.horizontal.language.room import Room
from parties.horizontal.language.texts.batches import Batch
from parties.horizontal.learning.lesson import Unteachable
from parties.horizontal.learning.text_lesson import TextLesson
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

    def loss(self, forget: Batch, retain: Batch | None) -> Tensor:
        """The scalar to descend; without ``retain`` its term is absent.

        Raises:
            Unteachable: RMU's layer is not there.
        """
        plan, model = self.lesson, self.room.model
        match plan.objective:
            case "learn":
                found = retain_nll(nll(model, forget))
            case "grad-ascent":
                found = gradient_ascent(nll(model, forget))
            case "grad-diff":
                found = self._beside(gradient_ascent(nll(model, forget)), retain)
            case "npo":
                reference = nll(self._twin, forget, taught=False).total
                away = npo(nll(model, forget), reference, plan.beta)
                found = self._beside(away, retain)
            case "simnpo":
                away = simnpo(nll(model, forget), plan.beta, plan.delta)
                found = self._beside(away, retain)
            case "rmu":
                found = self._misdirected(forget, retain)
            case "primal-dual":
                found = self._priced(forget, retain)
            case _:
                assert_never(plan.objective)
        return found

    def _priced(self, forget: Batch, retain: Batch | None) -> Tensor:
        plan = self.lesson
        scores = preference_scores(nll(self.room.model, forget), Preference(ceiling=plan.ceiling))
        dual = init(0.0, plan.ceiling, plan.price)  # γ only shifts the loss
        return lagrangian(plan.alpha * self._retained(retain), scores, dual)

    @cached_property
    def _twin(self) -> Any:
        return self.room.twin(self.before)

    def _beside(self, forget: Tensor, retain: Batch | None) -> Tensor:
        return weighted(forget, self._retained(retain), self.lesson.gamma, self.lesson.alpha)

    def _retained(self, retain: Batch | None) -> Tensor:
        """The retain term; 0 where a client has nothing that stays, and others hold the model."""
        if retain is None:
            return torch.zeros((), device=self.room.device)
        if self.lesson.retain == "nll":
            return retain_nll(nll(self.room.model, retain))
        ours = _outputs(self.room.model, retain).logits
        with torch.no_grad():
            theirs = _outputs(self._twin, retain).logits
        return kl_reference_model(theirs, ours, retain.labels.to(ours.device))

    def _misdirected(self, forget: Batch, retain: Batch | None) -> Tensor:
        layers = int(self.room.model.config.num_hidden_layers)
        layer = self.lesson.layer or (layers + 1) // 2
        if layer > layers:
            raise Unteachable(f"layer {layer} of a model that has {layers}")
        lost = _hidden(self.room.model, forget, layer)
        target = steering(lost.shape[2], self.lesson.steering, self.seed).to(lost)
        away = rmu_forget(lost, target, _told(forget, lost))
        if retain is None:
            return self.lesson.gamma * away
        kept = _hidden(self.room.model, retain, layer)
        with torch.no_grad():
            frozen = _hidden(self._twin, retain, layer)
        stays = rmu_retain(kept, frozen, _told(retain, kept))
        return weighted(away, stays, self.lesson.gamma, self.lesson.alpha)


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
