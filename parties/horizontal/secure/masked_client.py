"""A client's messages in masked sums; ``masking.client`` computes masks and shares."""

from dataclasses import replace
from math import nan

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.secure.masking.client import MaskingClient, MaskingError
from parties.horizontal.secure.masking.pair_keys import MaskPublicKeys
from parties.horizontal.secure.sums import (
    SumClient,
    check_sum_members,
    hidden_update,
    single_update_error,
)
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.dataclass_codec import encode
from protocol.errors import IdentityError, RemoteProtocolError
from protocol.message import Message

MASKED_FRACTION_BITS = 32
PURPOSE = "mask keys"  # domain of the signature


class MaskedSumClient(SumClient):
    """Protects the updates of a client in masked sums.

    If the agreement does not use masks, the client sends its updates unmasked.
    """

    def __init__(self, party: FederatedContext, channel: Channel) -> None:
        super().__init__(party, channel)
        self._masks = party.agreement.aggregation.kind == "masks"
        self._sum: MaskingClient | None = None
        self._members, self._context = tuple[str, ...](), b""
        self._sealed: dict[str, bytes] | None = None

    def handle(self, message: Message) -> None:
        """Handle a message from the server about a sum of updates.

        Raises:
            RemoteProtocolError: the message does not belong to a masked sum, or the reply would
                reveal the vector of a single client.
        """
        if not self._masks:
            raise RemoteProtocolError(
                f"the server sent {message.kind}, but the agreement has no secure aggregation"
            )
        try:
            match message.body:
                case vfl_pb2.StartSum() as start:
                    self._start(start)
                case vfl_pb2.MemberKeys() as keys:
                    self._seal_shares(keys)
                case vfl_pb2.ShareSeed() as shares:
                    self._sealed = dict(shares.shares)
                case vfl_pb2.Present() as present:
                    self._reveal_shares(present)
                case _:
                    raise RemoteProtocolError(
                        f"the server sent {message.kind}, a kind of message that no client accepts"
                    )
        except MaskingError as error:
            raise RemoteProtocolError(
                f"the server sent an invalid message about a masked sum: {error}"
            ) from error

    def require_sum(self) -> None:
        """Check that an update can be sent now.

        Raises:
            PolicyError: the agreement uses masks, but this client takes part in no sum or has
                already sent its vector.
        """
        ready = self._sum is not None and self._sum.can_mask and self._sealed is not None
        if self._masks and not ready:
            raise single_update_error("masks")

    def protect(
        self, found: LocalUpdate
    ) -> "tuple[Tensor | NDArray[np.int64], vfl_pb2.LocalUpdate]":
        """Return an update to send: masked if the agreement uses masks, otherwise unchanged.

        An update that is not finite, or exceeds the permitted range, is not sent: the vector is
        empty and the loss is NaN.

        Returns:
            Two values: the vector, ``[d]`` (``[d + 2]`` if masked, ``[0]`` if not sent), and the
            message to send after the vector.

        Raises:
            PolicyError: the agreement uses masks, but this client takes part in no sum or has
                already sent its vector.
        """
        if not self._masks:
            loss, delta = found.loss, found.delta
            limit = self._party.agreement.limits.magnitude
            if not bool((delta.abs() <= limit).all()):
                # Channels refuse such a tensor; the loss NaN reports it.
                worst = float(delta.abs().max())
                self._party.progress.warn(
                    f"a number of the update is {worst:g}; at most limits.magnitude, {limit:g}, "
                    "may be sent"
                )
                delta, loss = delta[:0], nan
            return delta, encode(replace(found, loss=loss), vfl_pb2.LocalUpdate)
        self.require_sum()
        words = self._encode(found, MASKED_FRACTION_BITS, len(self._members))
        if words is None:
            return found.delta[:0], hidden_update(found, nan)
        masked = self._current_sum().mask(words).view(np.int64)
        return masked, hidden_update(found, 0.0)

    def _start(self, start: vfl_pb2.StartSum) -> None:
        party = self._party
        members = check_sum_members(party, start, self._known_contexts)
        self._members, self._context, self._sealed = members, start.context, None
        self._sum = MaskingClient(
            party.name, members, start.threshold, start.context, party.entropy
        )
        own = self._sum.public_keys
        certificate, signature = self._sign(PURPOSE, start.context, own.masking, own.sealing)
        self._channel.send(
            vfl_pb2.MaskKeys(
                masking=own.masking,
                sealing=own.sealing,
                certificate=certificate,
                signature=signature,
            )
        )

    def _seal_shares(self, keys: vfl_pb2.MemberKeys) -> None:
        shares = self._current_sum().seal_shares(
            {name: self._verified(name, each) for name, each in keys.keys.items()}
        )
        self._channel.send(vfl_pb2.SealedShares(shares=shares))

    def _verified(self, name: str, keys: vfl_pb2.MaskKeys) -> MaskPublicKeys:
        """A member's public keys, which it signed itself: the server cannot replace them."""
        signer = self._signer(keys, PURPOSE, self._context, keys.masking, keys.sealing)
        if signer != name:
            raise IdentityError(
                f"the server sent mask keys of {name} that were signed by {signer}; expected the "
                f"signature of {name}"
            )
        return MaskPublicKeys(keys.masking, keys.sealing)

    def _reveal_shares(self, present: vfl_pb2.Present) -> None:
        if self._sealed is None:
            raise RemoteProtocolError(
                "the server asked this client to reveal shares before the server sent the "
                "encrypted shares of the other members"
            )
        revealed = self._current_sum().reveal_shares(self._sealed, present.members)
        self._sum = self._sealed = None
        self._channel.send(vfl_pb2.RevealedShares(seeds=revealed.seeds, keys=revealed.keys))

    def _current_sum(self) -> MaskingClient:
        if self._sum is None:
            raise RemoteProtocolError(
                "the server sent a message about a masked sum, but this client is in no masked sum "
                "at the moment"
            )
        return self._sum
