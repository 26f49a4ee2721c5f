"""Extraction strength: how little of a text must be given for the model to say the rest.

Carlini et al. 2021 as in open-unlearning. The greedy token at each place, given all *true* tokens
before it, is enough: from where all these are right on, greedy decoding says the same.
"""

import torch
from torch import Tensor


def extraction_strength(greedy: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Return 1 − k/|y|, ``[batch]``: k = the shortest prefix after which all is said rightly.

    All are ``[batch, tokens]``; ``mask`` says which tokens are of the answer. 1 is an answer that
    the prompt alone brings out, 0 one whose last token is wrong. (open-unlearning's program gives
    1/|y| to the latter.)

    Raises:
        ValueError: other shapes, or a row without a token.
    """
    if greedy.dim() != 2 or not greedy.shape == truth.shape == mask.shape:
        raise ValueError(
            f"greedy {list(greedy.shape)}, truth {list(truth.shape)} and mask {list(mask.shape)} "
            "must all be [batch, tokens]"
        )
    rows = zip(greedy, truth, mask.bool(), strict=True)
    return torch.tensor(
        [_strength((said == true)[kept]) for said, true, kept in rows], dtype=torch.float64
    )


def _strength(right: Tensor) -> float:
    if not len(right):
        raise ValueError("a row has no token in the mask; leave such answers out")
    wrong = (~right).nonzero()
    prefix = int(wrong[-1]) + 1 if len(wrong) else 0
    return 1.0 - prefix / len(right)
