"""A client in sums under masks: its side of the conversation around ``masking.client``."""

from math import nan

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parties.horizontal.local.local_task import Learned
from parties.horizontal.party import FederatedParty
from parties.horizontal.secure.masking.client import MaskingClient, MaskingError
from parties.horizontal.secure.masking.pair_keys import Publics
from parties.horizontal.secure.sums import Outgrown, admitted, refuse_alone, weighed
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify
from protocol.errors import IdentityError, RemoteProtocolError
from protocol.message import Message

BITS = 32  # behind the point
PURPOSE = "mask keys"


class ClientSums:
    """The sum that is under way, if one is; where the agreement has masks, nothing goes without."""

    def __init__(self, party: FederatedParty, channel: Channel) -> None:
        self._party, self._channel = party, channel
        self._masks = party.agreement.aggregation.kind == "masks"
        self._sum: MaskingClient | None = None
        self._members, self._context = tuple[str, ...](), b""
        self._dealt: dict[str, bytes] | None = None
        self._known = set[bytes]()

    def answer(self, message: Message) -> None:
        """One message of a sum."""
        try:
            match message.body:
                case vfl_pb2.Gather() as gather:
                    self._gather(gather)
                case vfl_pb2.Pairs() as pairs:
                    self._pair(pairs)
                case vfl_pb2.Deal() as deal:
                    self._dealt = dict(deal.shares)
                case vfl_pb2.There() as there:
                    self._open(there)
                case _:
                    raise RemoteProtocolError(f"said {message.kind} to a client")
        except MaskingError as error:
            raise RemoteProtocolError(f"asks for what no sum needs: {error}") from error

    def covered(self, found: Learned) -> "tuple[Tensor | NDArray[np.int64], vfl_pb2.Learned]":
        """What is said of a lesson: as it is, or under the masks of the sum.

        A change that is not finite, or does not fit into the sum, is not said: nothing is, and the
        loss is no number.

        Raises:
            PolicyError: it would be said without masks, or twice under one, and masks were agreed
                on.
        """
        if not self._masks:
            rows, loss, change = found.rows, found.loss, found.change
            most = self._party.agreement.limits.magnitude
            if not bool((change.abs() <= most).all()):
                # No tensor like that may cross; a loss that is no number says what happened.
                worst = float(change.abs().max())
                self._party.watch.warn(f"a number of the update is {worst:g}, at most {most:g} may")
                change, loss = change[:0], nan
            told = vfl_pb2.Learned(rows=rows, loss=loss, steps=found.steps, tokens=found.tokens)
            return change, told
        if self._sum is None or self._dealt is None:
            raise refuse_alone("masks")
        try:
            words = weighed(found, BITS, len(self._members))
        except Outgrown as error:
            self._party.watch.warn(str(error))
            return found.change[:0], vfl_pb2.Learned(rows=0, loss=nan, steps=found.steps)
        try:
            masked = self._sum.masked(words).view(np.int64)
        except MaskingError as error:
            raise refuse_alone("masks") from error
        return masked, vfl_pb2.Learned(rows=0, loss=0.0, steps=found.steps)

    def _gather(self, gather: vfl_pb2.Gather) -> None:
        party, members = self._party, admitted(self._party.agreement, gather, self._known)
        self._members, self._context, self._dealt = members, gather.context, None
        self._sum = MaskingClient(
            party.name, members, gather.threshold, gather.context, party.entropy
        )
        own = self._sum.publics
        signature = party.keyring.identity.sign(
            PURPOSE, party.digest, gather.context, own.masking, own.sealing
        )
        self._channel.send(
            vfl_pb2.MaskKeys(
                masking=own.masking,
                sealing=own.sealing,
                certificate=party.keyring.identity.der,
                signature=signature,
            )
        )

    def _pair(self, pairs: vfl_pb2.Pairs) -> None:
        shares = self._under_way().shares(
            {name: self._verified(name, each) for name, each in pairs.keys.items()}
        )
        self._channel.send(vfl_pb2.Sealed(shares=shares))

    def _verified(self, name: str, keys: vfl_pb2.MaskKeys) -> Publics:
        """The keys that ``name`` itself signed: the server cannot put its own in their place."""
        party = self._party
        bound = (party.digest, self._context, keys.masking, keys.sealing)
        certificate, signature = keys.certificate, keys.signature
        signer = verify(party.trust, certificate, signature, party.now(), PURPOSE, *bound)
        if signer != name:
            raise IdentityError(f"{signer} signed the mask keys of {name}")
        return Publics(keys.masking, keys.sealing)

    def _open(self, there: vfl_pb2.There) -> None:
        if self._dealt is None:
            raise RemoteProtocolError("opens a sum whose shares it did not deal")
        opened = self._under_way().opened(self._dealt, there.members)
        self._sum = self._dealt = None
        self._channel.send(vfl_pb2.Opened(seeds=opened.seeds, keys=opened.keys))

    def _under_way(self) -> MaskingClient:
        if self._sum is None:
            raise RemoteProtocolError("speaks of a sum, and none is under way")
        return self._sum
