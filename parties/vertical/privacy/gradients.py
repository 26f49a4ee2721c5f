"""Noise on the gradients that the active party sends: counted for every peer, and no (ε, δ)."""

from torch import Tensor

from parties.session.party import Party
from parties.vertical.engine.party_state import State
from parties.vertical.privacy.ledger import PrivacyLedger
from parties.vertical.privacy.visits import Visits, Way, keystream
from protocol import vfl_pb2
from protocol.hub import Hub


class Gradients:
    """What is sent in place of a gradient; the gradient itself where no noise is agreed."""

    def __init__(self, party: Party, hub: Hub, state: State) -> None:
        self._state = state
        self._visits: dict[str, Visits] = {}
        plan = party.agreement.privacy.grad_noise
        if plan is None:
            return
        ledger = PrivacyLedger(party.state, party.entropy)
        rows = state.features.rows.tolist()
        ids = [party.holding.ids[row] if row >= 0 else b"" for row in rows]
        for name, channel in hub.channels.items():
            way = Way(plan, party.agreement.limits.magnitude, name)
            noise = keystream(party, channel.session or b"", f"gradients for {name}")
            self._visits[name] = Visits(way, ledger, ids, noise)

    def noised(self, name: str, ask: vfl_pb2.Ask, gradient: Tensor) -> Tensor:
        """What ``name`` gets as the gradient of its embeddings of a batch."""
        if name not in self._visits:
            return gradient
        batches = self._state.batches
        rows, within = batches.of(ask), batches.rows.of(ask.rows)
        return self._visits[name].noised(rows, within, gradient.detach())
