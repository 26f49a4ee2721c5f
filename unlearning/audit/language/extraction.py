"""Extraction strength: how short a prefix suffices for the model to generate the rest of a text.

The extraction strength is defined by Carlini et al. 2021 and computed as in open-unlearning. A
greedy token is the token that the model predicts from all *true* tokens before a position. From the
position after the last wrong greedy token, greedy decoding generates the true text. Therefore the
computation needs only the greedy token at each position.

The mask decides whether the end token counts. The answers of TOFU are measured with their end
token, so that 1 means: the model generates the answer and then stops. The code of open-unlearning
leaves out the last label: the end token of an answer of TOFU, and the last token of a text of MUSE,
which has no end token. Its strengths are therefore not comparable with those of this project: for
an answer in which only the end token is wrong, this project gives 0, and open-unlearning gives 1.
"""

import torch
from torch import Tensor


def extraction_strength(greedy: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Return the extraction strength of each answer, ``[batch]``.

    ``greedy`` and ``truth`` are token ids; ``mask`` marks the answer; all are ``[batch, tokens]``.
    The result is 1 if the prompt alone makes the model generate the answer, and 0 if the last token
    is wrong (in the second case, the code of open-unlearning gives 1/|y|).

    Raises:
        ValueError: the shapes differ, or a row has no token in the mask.
    """
    if greedy.dim() != 2 or not greedy.shape == truth.shape == mask.shape:
        raise ValueError(
            f"the shapes of greedy {list(greedy.shape)}, truth {list(truth.shape)} and mask "
            f"{list(mask.shape)} must be equal, and of the form [batch, tokens]"
        )
    rows = zip(greedy, truth, mask.bool(), strict=True)
    return torch.tensor(
        [_strength((said == true)[kept]) for said, true, kept in rows], dtype=torch.float64
    )


def _strength(right: Tensor) -> float:
    if not len(right):
        raise ValueError("an answer has no token in the mask; leave out answers without tokens")
    # open-unlearning: 1 − k/|y|, k = length of the shortest prefix after which all is right.
    wrong = (~right).nonzero()
    prefix = int(wrong[-1]) + 1 if len(wrong) else 0
    return 1.0 - prefix / len(right)
