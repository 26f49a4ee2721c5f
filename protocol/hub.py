"""The hub's channels to all spokes: send to all, receive from all, or send to one spoke."""

from collections.abc import Collection, Iterator, Mapping

from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.message import Body, Message
from protocol.tensors import Tensor


class Hub:
    """The hub's channels to all spokes, in the order of the parties in the agreement."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self.channels = dict(channels)

    def __iter__(self) -> Iterator[str]:
        return iter(self.channels)

    def without(self, absent: Collection[str]) -> "Hub":
        """Return a hub with the same channels, except the channels to the ``absent`` spokes."""
        return Hub({name: each for name, each in self.channels.items() if name not in absent})

    def move_to(self, place: vfl_pb2.Place) -> None:
        """Set the position in the run that is written into the next messages to all spokes."""
        for channel in self.channels.values():
            channel.place = place

    def broadcast(self, body: Body, *tensors: Tensor) -> None:
        """Send the same message to every spoke; ``tensors`` may have any shape."""
        for channel in self.channels.values():
            channel.send(body, *tensors)

    def scatter(self, body: Body, tensors: Mapping[str, Tensor]) -> None:
        """Send ``body`` to all spokes; the spoke ``name`` gets ``tensors[name]``, of any shape."""
        for name, channel in self.channels.items():
            channel.send(body, tensors[name])

    def ask(self, name: str, timeout: float, body: Body, *tensors: Tensor) -> Message:
        """Send a message with ``tensors`` of any shape to one spoke, and return its reply."""
        self.channels[name].send(body, *tensors)
        return self.channels[name].receive(timeout)

    def gather(self, timeout: float) -> dict[str, Message]:
        """Receive one message from each spoke; raise an error if a message is late or illegal."""
        return {name: channel.receive(timeout) for name, channel in self.channels.items()}

    def abort(self, code: str, reason: str) -> None:
        """Send the message Abort to every spoke that can still receive messages."""
        for channel in self.channels.values():
            channel.abort(code, reason)

    def close(self) -> None:
        """Close the connections to all spokes."""
        for channel in self.channels.values():
            channel.close()
