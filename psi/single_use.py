"""Single use: each party calls the steps of a run in a fixed order, each step once."""

from psi.errors import PsiError, UsedTwice


class StepOrder:
    """Checks that the ``steps`` of a run are taken in order; errors name the party ``who``."""

    def __init__(self, who: str, steps: tuple[str, ...]) -> None:
        self._who = who
        self._steps = steps
        self._taken = 0

    def require(self, step: str) -> None:
        """Check that ``step`` is the next step.

        Raises:
            UsedTwice: ``step`` was taken before.
            PsiError: another step must come first.
        """
        position = self._steps.index(step)
        if position < self._taken:
            raise UsedTwice(
                f"{self._who}: the step {step} was called a second time",
                hint="each object can be used for one run only; start a new session",
            )
        if position > self._taken:
            raise PsiError(
                f"{self._who}: the step {step} was called too early; the next step is "
                f"{self._steps[self._taken]}",
                hint=f"the order of the steps is {', '.join(self._steps)}",
            )

    def take(self, step: str) -> None:
        """Mark ``step`` as taken; the step counts as taken even if the step fails later.

        Raises:
            UsedTwice: ``step`` was taken before.
            PsiError: another step must come first.
        """
        self.require(step)
        self._taken += 1


class BucketOrder:
    """Checks that buckets 0 to ``count`` - 1 are opened in ascending order, each at most once."""

    def __init__(self, who: str, count: int) -> None:
        self._who, self._count = who, count
        self._next = 0

    @property
    def finished(self) -> bool:
        """True if the last bucket was opened."""
        return self._next == self._count

    def take(self, number: int) -> None:
        """Record that bucket ``number`` was opened.

        Raises:
            UsedTwice: this bucket or a later one was opened before.
            PsiError: there is no bucket with this number.
        """
        if not 0 <= number < self._count:
            raise PsiError(
                f"{self._who}: bucket {number} does not exist, expected 0 to {self._count - 1}"
            )
        if number < self._next:
            raise UsedTwice(
                f"{self._who}: bucket {number} was opened a second time, or after a later bucket",
                hint="the one-time pads of a bucket must not be used twice; start a new session",
            )
        self._next = number + 1
