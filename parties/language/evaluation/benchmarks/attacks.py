"""Attacks on an unlearned model: relearning and quantisation.

The attacks try to recover knowledge that unlearning only suppressed. The relearning attack
fine-tunes the model on a few of the forgotten texts; the model may then also remember the other
forgotten texts. The quantisation attack rounds the weights to 8 or 4 bits. Unlearning often makes
only small weight changes; if the rounding undoes these changes, the model knows the texts again.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch

from models.language.adapters import without_adapters
from models.language.rounding import GROUP, Bits, round_weights
from parties.common.shared_randomness import derive_key, permutation
from parties.language.engine.base_model import BaseModel
from parties.language.engine.errors import translate_model_errors
from parties.language.engine.objective import batch_nll
from parties.language.evaluation.benchmarks.inference import mean_nlls
from parties.language.texts.batches import training_batch
from parties.language.texts.encoding import EncodedText
from unlearning.audit.language.tofu import answer_probability

ATTACK_BATCH = 8  # texts of a step


@dataclass(frozen=True, slots=True)
class RelearningAttack:
    """Settings of the relearning attack."""

    steps: int  # number of AdamW steps
    # Fraction of the forgotten texts that the attacker trains on; the attack is measured on the
    # other forgotten texts.
    share: float
    learning_rate: float  # learning rate of AdamW
    seed: int  # seed of the attacker's choice of texts, and of dropout


def quantised_copy(base_model: BaseModel, bits: Bits) -> BaseModel:
    """Return a copy of a model with merged adapters, and with linear weights of ``bits`` bits.

    With 8 bits, each output channel has its own scale. With 4 bits, each group of 64 inputs of an
    output channel has its own scale.

    Raises:
        DataError: the model has no linear weight, or a merged weight is not finite.
    """
    with translate_model_errors():
        other: Any = without_adapters(deepcopy(base_model.model))
        round_weights(other, bits, GROUP if bits == 4 else None)
    return replace(base_model, model=other.eval())


def relearn_attack(
    base_model: BaseModel, rows: Sequence[EncodedText], plan: RelearningAttack, size: int
) -> tuple[float, float, int]:
    """Run the relearning attack on a copy of the model.

    ``rows`` are the forgotten texts; the attacker trains on some of these texts. Three values are
    returned: the mean probability of the other texts before the attack, the mean probability of the
    same texts after the attack, and the number of these texts. ``size`` is the number of texts per
    batch when the probabilities are measured.

    Raises:
        ValueError: ``plan.share`` selects no text or all texts.
    """
    order = permutation(derive_key(plan.seed, "relearn"), len(rows))
    count = round(plan.share * len(rows))
    if not 0 < count < len(rows):
        raise ValueError(
            f"share = {plan.share} of {len(rows)} texts selects no text or all texts; the attack "
            "and the measurement each need at least one text"
        )
    own, others = ([rows[at] for at in part] for part in (order[:count], order[count:]))
    before = float(answer_probability(mean_nlls(base_model, others, size)).mean())
    attacked = replace(base_model, model=deepcopy(base_model.model))
    block = [each for each in attacked.model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(block, plan.learning_rate, weight_decay=0.0)
    attacked.model.train()
    torch.manual_seed(plan.seed)  # of dropout
    for step in range(plan.steps):
        first = step * ATTACK_BATCH
        chosen = [own[(first + at) % count] for at in range(min(ATTACK_BATCH, count))]
        batch = training_batch(chosen, base_model.pad_token)
        optimiser.zero_grad()
        with base_model.autocast():
            loss = batch_nll(attacked.model, batch).token_mean
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    attacked.model.eval()
    after = float(answer_probability(mean_nlls(attacked, others, size)).mean())
    return before, after, len(others)
