"""Attacks on a model that forgot: what only hides comes back.

Weights are rounded to few bits, which can undo small steps; or a few forgotten texts are learned
again, which can bring back the others.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch

from models.language.adapters import plain
from models.language.rounding import GROUP, Bits, round_weights
from parties.common.shared_randomness import key, permutation
from parties.language.engine.base_model import Room
from parties.language.engine.errors import told
from parties.language.engine.objective import nll
from parties.language.evaluation.benchmarks.asking import mean_nlls
from parties.language.texts.batches import training_batch
from parties.language.texts.encoding import Encoded
from unlearning.audit.language.probability import probability

BATCH = 8  # texts of a step


@dataclass(frozen=True, slots=True)
class Relearning:
    """What the attacker does.

    Attributes:
        steps: of AdamW.
        share: of the forgotten texts that it has; the others tell what came back.
    """

    steps: int
    share: float
    learning_rate: float
    seed: int


def rounded(room: Room, bits: Bits) -> Room:
    """The same model with its adapters merged and its linear weights rounded to ``bits``: one copy.

    Every output channel has a scale of its own, with 4 bits every 64 inputs of it.

    Raises:
        DataError: it has no linear weight, or its adapters make one that is not finite.
    """
    with told():
        other: Any = plain(deepcopy(room.model))
        round_weights(other, bits, GROUP if bits == 4 else None)
    return replace(room, model=other.eval())


def relearned(
    room: Room, rows: Sequence[Encoded], plan: Relearning, size: int
) -> tuple[float, float, int]:
    """The mean probability of texts that the attacker does not have, before and after; how many.

    Raises:
        ValueError: the share leaves no text on one of the sides.
    """
    order = permutation(key(plan.seed, "relearn"), len(rows))
    count = round(plan.share * len(rows))
    if not 0 < count < len(rows):
        raise ValueError(f"a share of {plan.share} of {len(rows)} texts leaves a side without any")
    own, others = ([rows[at] for at in part] for part in (order[:count], order[count:]))
    before = float(probability(mean_nlls(room, others, size)).mean())
    attacked = replace(room, model=deepcopy(room.model))
    block = [each for each in attacked.model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(block, plan.learning_rate, weight_decay=0.0)
    attacked.model.train()
    torch.manual_seed(plan.seed)  # of dropout
    for step in range(plan.steps):
        first = step * BATCH
        chosen = [own[(first + at) % count] for at in range(min(BATCH, count))]
        optimiser.zero_grad()
        with room.computing():
            loss = nll(attacked.model, training_batch(chosen, room.pad)).token_mean
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    attacked.model.eval()
    after = float(probability(mean_nlls(attacked, others, size)).mean())
    return before, after, len(others)
