"""Error of a config that cannot be used."""

from collections.abc import Sequence

LISTED = "docs/configuration.md lists every setting"


class ConfigError(Exception):
    """A config is missing, unreadable or invalid.

    Attributes:
        problems: one sentence for each problem: what is wrong, where, and what is legal.
        hint: what the user can do to solve the problems.
    """

    def __init__(self, message: str | Sequence[str], hint: str = "") -> None:
        self.problems = (message,) if isinstance(message, str) else tuple(message)
        super().__init__("\n".join(self.problems))
        self.hint = hint
