"""The rows of a membership attack at a client: forgotten ones and test rows, like with like.

Test rows of other classes than the forgotten ones would be told apart by their class alone, and a
row with a trigger by the trigger: so rows without it are compared, and of every class as many of
either side. No attack is fitted to them (their odds are the attack), so all test rows may serve.
"""

import numpy as np
from torch import Tensor

from parties.common.shared_randomness import Index, permutation
from parties.horizontal.local.local_task import Rows


def matched(clean: Rows, held: Rows, secret: bytes) -> tuple[Rows, Rows]:
    """Of forgotten rows without a trigger and of test rows as many each, class for class."""
    ours, theirs = class_for_class(clean.labels, held.labels, secret)
    return clean.take(ours), held.take(theirs)


def class_for_class(ours: Tensor, theirs: Tensor, secret: bytes) -> tuple[Index, Index]:
    """Places among two sides' labels: of every class as many as the side with fewer has.

    Which rows of the other side stand for their class is drawn by ``secret``.
    """
    sides = [ours.numpy(), theirs.numpy()]
    orders = [permutation(secret, len(side)) for side in sides]
    chosen: list[list[Index]] = [[], []]
    for label in np.intersect1d(sides[0], sides[1]):
        found = [order[side[order] == label] for side, order in zip(sides, orders, strict=True)]
        least = min(len(places) for places in found)
        for some, places in zip(chosen, found, strict=True):
            some.append(places[:least])
    first, second = (np.sort(np.concatenate([*some, np.empty(0, np.int64)])) for some in chosen)
    return first, second
