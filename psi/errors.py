"""Exceptions of the private set intersection. An error message contains no ID and no secret."""


class PsiError(Exception):
    """The intersection failed and must be aborted.

    The message names the party, the step, the value found and the value expected; ``hint`` is
    advice for the user.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsedTwice(PsiError):
    """A step was called a second time, but each step of an object may be called only once."""
