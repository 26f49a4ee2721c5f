"""What of a passive party's embeddings leaves it in prediction: released as in training."""

from collections.abc import Callable

import torch
from torch import Tensor

from models.arithmetic import bounded
from parties.common.device import embed
from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.privacy.ledger import PrivacyLedger
from parties.vertical.privacy.one_time_release import Frozen, OnceReleased
from parties.vertical.privacy.visits import Visits, Way, keystream

Embed = Callable[[Index], tuple[Tensor, bool]]


def predicted(party: Party, session: bytes, frozen: Frozen) -> Embed:
    """Rows → what is sent for them, [rows, width], and whether their embeddings can travel.

    With `embed_once` a row that was released is answered with the same bytes as then, another
    person is a release of its own, and all can travel: to say otherwise would tell of features.

    Raises:
        PolicyError: see ``OnceReleased``.
    """
    plan, magnitude = party.agreement.privacy, party.agreement.limits.magnitude
    if plan.embed_once:
        once = OnceReleased(party, plan.embed_once, session, frozen)
        return lambda rows: (once.values[rows], True)
    visits: Visits | None = None
    if plan.embed_train:
        ledger, way = PrivacyLedger(party.state, party.entropy), Way(plan.embed_train, magnitude)
        visits = Visits(way, ledger, frozen.ids, keystream(party, session, "predictions"))

    @torch.no_grad()
    def sent(rows: Index) -> tuple[Tensor, bool]:
        embedding = embed(frozen.network, frozen.inputs[rows])
        if not bounded([embedding], magnitude):
            return torch.zeros_like(embedding), False
        return embedding if visits is None else visits.noised(rows, rows, embedding), True

    return sent
