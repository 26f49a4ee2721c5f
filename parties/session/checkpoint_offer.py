"""What a party could go on from, as the others hear of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """The run whose checkpoints a party holds, and their numbers; the run is empty without any."""

    run: bytes = b""
    numbers: tuple[int, ...] = ()


NOTHING = Held()
