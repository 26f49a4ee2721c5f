"""Branches of a run's models: each client stores separate personal parameters per branch."""

from parties.horizontal.engine.cohort import Cohort
from parties.horizontal.engine.run_journal import RunJournal


class Branches:
    """Starts branches, and switches all clients to a branch.

    Attributes:
        current: name of the branch whose model the run would deliver if it ended now.
    """

    def __init__(self, cohort: Cohort, journal: RunJournal) -> None:
        self._cohort, self._journal = cohort, journal
        self.current = ""

    def start(self, name: str, parent: str | None) -> str:
        """Switch all clients to a new branch and return its name.

        After a crash, repeated work gets a new branch, because on the old branch clients may
        already have trained personal parameters in the lost work.
        """
        branch = f"{self._journal.run.hex()} {name} {self._journal.start.hex()[:8]}"
        self._cohort.switch_branch(branch, parent)
        return branch

    def adopt(self, branch: str) -> None:
        """Make a branch the current one and switch all clients to it."""
        self.current = branch
        self._cohort.switch_branch(branch, None)
