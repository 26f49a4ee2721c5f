"""All spokes at once: broadcast, scatter, gather. Every mode is a star."""

from collections.abc import Collection, Iterator, Mapping

from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.message import Body, Message
from protocol.tensors import Tensor


class Hub:
    """The leader's grip on its spokes, in the order of the agreement."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self.channels = dict(channels)

    def __iter__(self) -> Iterator[str]:
        return iter(self.channels)

    def without(self, absent: Collection[str]) -> "Hub":
        """A hub of the other spokes, over the same channels."""
        return Hub({name: each for name, each in self.channels.items() if name not in absent})

    def move_to(self, place: vfl_pb2.Place) -> None:
        """Set the place that the next messages bear."""
        for channel in self.channels.values():
            channel.place = place

    def broadcast(self, body: Body, *tensors: Tensor) -> None:
        """Say the same to every spoke."""
        for channel in self.channels.values():
            channel.send(body, *tensors)

    def scatter(self, body: Body, tensors: Mapping[str, Tensor]) -> None:
        """Say ``body`` to every spoke, to each with its own tensor."""
        for name, channel in self.channels.items():
            channel.send(body, tensors[name])

    def gather(self, timeout: float) -> dict[str, Message]:
        """One message from every spoke; the first that is late or wrong is named in the error."""
        return {name: channel.receive(timeout) for name, channel in self.channels.items()}

    def abort(self, code: str, reason: str) -> None:
        """Tell every spoke that can still hear that it is over, and why."""
        for channel in self.channels.values():
            channel.abort(code, reason)

    def close(self) -> None:
        """Close every line."""
        for channel in self.channels.values():
            channel.close()
