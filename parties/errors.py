"""What a party refuses to go on with, each with the exit code of its kind."""


class PartyError(Exception):
    """Something at this party is wrong; ``hint`` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DataError(PartyError):
    """This party's data cannot be used."""


class PolicyError(PartyError):
    """A rule of the agreement forbids to go on."""


class StorageError(PartyError):
    """A file or port of this machine cannot be had."""
