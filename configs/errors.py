"""A config that cannot be used."""


class ConfigError(Exception):
    """What is wrong in a config, where, and what is legal instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
