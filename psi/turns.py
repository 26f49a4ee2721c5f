"""Single use: the steps of one side of one run, each taken once and in one order."""

from psi.errors import PsiError, UsedTwice


class Turns:
    """Whose turn it is among ``steps``; ``who`` names the run in errors."""

    def __init__(self, who: str, steps: tuple[str, ...]) -> None:
        self._who = who
        self._steps = steps
        self._taken = 0

    def require(self, step: str) -> None:
        """Check that ``step`` is next.

        Raises:
            UsedTwice: it was taken before.
            PsiError: another step must come first.
        """
        position = self._steps.index(step)
        if position < self._taken:
            raise UsedTwice(
                f"{self._who}: {step} was called a second time",
                hint="one object is one side of one run; start a new session",
            )
        if position > self._taken:
            raise PsiError(
                f"{self._who}: {step} was called too early",
                hint=f"next is {self._steps[self._taken]}; the order is {', '.join(self._steps)}",
            )

    def take(self, step: str) -> None:
        """Take ``step``; raises like `require`. A step that then fails stays taken."""
        self.require(step)
        self._taken += 1
