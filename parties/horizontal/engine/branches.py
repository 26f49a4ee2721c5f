"""Branches of a run: for each branch, a client stores separate personal parameters."""

from parties.horizontal.engine.cohort import Cohort
from parties.horizontal.engine.run_journal import RunJournal


class Branches:
    """Starts branches, and switches all clients to a branch.

    Attributes:
        current: name of the current branch; at the end of the run, the delivered model uses it.
    """

    def __init__(self, cohort: Cohort, journal: RunJournal) -> None:
        self._cohort, self._journal = cohort, journal
        self.current = ""

    def start(self, name: str, parent: str | None) -> str:
        """Switch all clients to a new branch and return its name.

        Steps that are repeated after a crash use a new branch, because clients may have trained the
        personal parameters of the old branch before the crash.
        """
        branch = f"{self._journal.run.hex()} {name} {self._journal.start.hex()[:8]}"
        self._cohort.switch_branch(branch, parent)
        return branch

    def adopt(self, branch: str) -> None:
        """Make ``branch`` the current branch and switch all clients to ``branch``."""
        self.current = branch
        self._cohort.switch_branch(branch, None)
