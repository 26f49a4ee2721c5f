"""Loss of one training step on texts, for fine-tuning and for unlearning."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, assert_never

import torch
from torch import Tensor
from torch.nn import ModuleList

from parties.horizontal.local.local_task import LocalTaskError, TextTask
from parties.language.engine.base_model import BaseModel
from parties.language.engine.micro_batches import MicroBatch
from parties.language.texts.batches import TextBatch
from unlearning.llm.likelihood import SequenceNll, sequence_nll
from unlearning.llm.losses import (
    gradient_ascent_loss,
    npo_loss,
    retain_kl_loss,
    retain_nll_loss,
    rmu_forget_loss,
    rmu_retain_loss,
    simnpo_loss,
    steering_vector,
    weighted_loss,
)
from unlearning.llm.primal_dual import PreferenceScore, initial_dual, lagrangian, preference_scores


@dataclass(frozen=True)
class TextObjective:
    """The objective of a local task, with the state that its losses need."""

    base_model: BaseModel  # the model that is trained
    task: TextTask  # objective and its settings
    # The model before unlearning, ``[d]``; copied and frozen only if a loss needs this model.
    before: Tensor
    seed: int  # seed of RMU's steering vector, equal for all clients

    def loss(self, batch: MicroBatch) -> Tensor:
        """Return the loss of a micro-batch, a scalar.

        Without retained rows, the loss consists of the forget term only.

        Raises:
            LocalTaskError: the model does not have the layer that RMU needs.
        """
        model, forget = self.base_model.model, batch.forget
        plan = replace(
            self.task,
            gamma=self.task.gamma * batch.forget_share,
            alpha=self.task.alpha * batch.retain_share,
            multiplier=self.task.multiplier * batch.forget_share,
        )
        match plan.objective:
            case "learn":
                found = batch.forget_share * retain_nll_loss(batch_nll(model, forget))
            case "grad-ascent":
                found = batch.forget_share * gradient_ascent_loss(batch_nll(model, forget))
            case "grad-diff":
                forget_term = gradient_ascent_loss(batch_nll(model, forget))
                found = self._with_retain_term(forget_term, batch, plan)
            case "npo":
                reference = batch_nll(self._frozen, forget, gradients=False).total
                forget_term = npo_loss(batch_nll(model, forget), reference, plan.beta)
                found = self._with_retain_term(forget_term, batch, plan)
            case "simnpo":
                forget_term = simnpo_loss(batch_nll(model, forget), plan.beta, plan.delta)
                found = self._with_retain_term(forget_term, batch, plan)
            case "rmu":
                found = self._rmu_loss(batch, plan)
            case "primal-dual":
                found = self._primal_dual_loss(batch, plan)
            case _:
                assert_never(plan.objective)
        return found

    def _primal_dual_loss(self, batch: MicroBatch, plan: TextTask) -> Tensor:
        shape = PreferenceScore(ceiling=plan.max_loss)
        scores = preference_scores(batch_nll(self.base_model.model, batch.forget), shape)
        dual = initial_dual(
            0.0, plan.max_loss, plan.multiplier
        )  # γ only adds a constant to the loss
        return lagrangian(plan.alpha * self._retain_term(batch), scores, dual)

    @cached_property
    def _frozen(self) -> Any:
        return self.base_model.frozen_copy(self.before)

    def _with_retain_term(self, forget: Tensor, batch: MicroBatch, plan: TextTask) -> Tensor:
        return weighted_loss(forget, self._retain_term(batch), plan.gamma, plan.alpha)

    def _retain_term(self, batch: MicroBatch) -> Tensor:
        """The retain term, a scalar; 0 for a client without retained texts."""
        if batch.retain is None:
            return torch.zeros((), device=self.base_model.device)
        if self.task.retain == "nll":
            return retain_nll_loss(batch_nll(self.base_model.model, batch.retain))
        ours = _outputs(self.base_model.model, batch.retain).logits
        with torch.no_grad():
            theirs = _outputs(self._frozen, batch.retain).logits
        return retain_kl_loss(theirs, ours, batch.retain.labels.to(ours.device))

    def _rmu_loss(self, batch: MicroBatch, plan: TextTask) -> Tensor:
        forget, retain = batch.forget, batch.retain
        layers = int(self.base_model.model.config.num_hidden_layers)
        layer = plan.layer or (layers + 1) // 2
        lost = layer_outputs(self.base_model.model, forget, layer)
        target = steering_vector(lost.shape[2], plan.steering, self.seed).to(lost)
        forget_term = rmu_forget_loss(lost, target, _has_label(forget, lost))
        if retain is None:
            return plan.gamma * forget_term
        kept = layer_outputs(self.base_model.model, retain, layer)
        with torch.no_grad():
            frozen = layer_outputs(self._frozen, retain, layer)
        retained = rmu_retain_loss(kept, frozen, _has_label(retain, kept))
        return weighted_loss(forget_term, retained, plan.gamma, plan.alpha)


def _has_label(batch: TextBatch, like: Tensor) -> Tensor:
    """``[batch, tokens]``, True for tokens with a label, on the device of ``like``."""
    return batch.labels.ne(-100).to(like.device)


def batch_nll(model: Any, batch: TextBatch, *, gradients: bool = True) -> SequenceNll:
    """Return the negative log-likelihoods of a batch's answers."""
    with torch.set_grad_enabled(gradients):
        logits = _outputs(model, batch).logits
        return sequence_nll(logits, batch.labels.to(logits.device))


def layer_outputs(model: Any, batch: TextBatch, layer: int) -> Tensor:
    """Return the outputs of the layer ``layer``, counted from 1, ``[batch, tokens, width]``.

    A hook reads the layer itself: the last of the hidden states that transformers returns is not
    the output of the last layer, but the output of the normalisation that follows.

    Raises:
        LocalTaskError: the model does not have this layer, or no list of its layers.
    """
    layers = int(model.config.num_hidden_layers)
    if layer > layers:
        raise LocalTaskError(f"RMU needs layer {layer}, but the model has {layers} layers")
    lists = (each for each in model.modules() if isinstance(each, ModuleList))
    blocks = next((each for each in lists if len(each) == layers), None)
    if blocks is None:
        raise LocalTaskError(
            f"RMU needs the layers of the model, but {type(model).__name__} has no list of its "
            f"{layers} layers; use another method"
        )
    found: list[Any] = []
    hook = blocks[layer - 1].register_forward_hook(lambda *call: found.append(call[2]))
    try:
        _outputs(model, batch)
    finally:
        hook.remove()
    activations: Tensor = found[0][0] if isinstance(found[0], tuple) else found[0]
    return activations


def _outputs(model: Any, batch: TextBatch) -> Any:
    device = next(model.parameters()).device
    return model(
        input_ids=batch.ids.to(device), attention_mask=batch.mask.to(device), use_cache=False
    )
