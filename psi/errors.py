"""What can go wrong in a private set intersection, said in words that hold no ID and no secret."""


class PsiError(Exception):
    """A run that must end here: who, at which step, what was found and what is legal instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsedTwice(PsiError):
    """A step was taken a second time: one object is one side of one run."""
