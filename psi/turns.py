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


class Once:
    """Which of ``count`` buckets may still be opened: each once, and none before an earlier one."""

    def __init__(self, who: str, count: int) -> None:
        self._who, self._count = who, count
        self._next = 0

    @property
    def over(self) -> bool:
        """Whether the last one was opened."""
        return self._next == self._count

    def take(self, number: int) -> None:
        """Open bucket ``number``.

        Raises:
            UsedTwice: it, or a later one, was opened before.
            PsiError: there is no such bucket.
        """
        if not 0 <= number < self._count:
            raise PsiError(f"{self._who}: no bucket {number}, legal are 0 to {self._count - 1}")
        if number < self._next:
            raise UsedTwice(
                f"{self._who}: bucket {number} was opened a second time",
                hint="its one-time pads were used; start a new session",
            )
        self._next = number + 1
