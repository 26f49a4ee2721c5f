"""A config that cannot be used."""

from collections.abc import Sequence

LISTED = "configs/agreement.py and configs/seat.py list every setting"  # the usual hint


class ConfigError(Exception):
    """What is wrong in a config, where, and what is legal instead.

    Attributes:
        problems: all that was found, one sentence each.
        hint: what to do about it.
    """

    def __init__(self, message: str | Sequence[str], hint: str = "") -> None:
        self.problems = (message,) if isinstance(message, str) else tuple(message)
        super().__init__("\n".join(self.problems))
        self.hint = hint
