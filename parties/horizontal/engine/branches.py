"""Branches of models of a run: each client keeps its personal parameters per branch."""

from parties.horizontal.engine.cohort import Cohort
from parties.horizontal.engine.run_journal import RunJournal


class Branches:
    """Starts branches and switches all clients between them.

    Attributes:
        current: name of the branch of the model that the run would deliver now.
    """

    def __init__(self, cohort: Cohort, journal: RunJournal) -> None:
        self._cohort, self._journal = cohort, journal
        self.current = ""

    def start(self, name: str, parent: str | None) -> str:
        """Switch all clients to a new branch and return its name.

        After a crash, repeated work gets a new branch: on the old one, clients already hold
        personal parameters of the lost work.
        """
        branch = f"{self._journal.run.hex()} {name} {self._journal.start.hex()[:8]}"
        self._cohort.switch_branch(branch, parent)
        return branch

    def adopt(self, branch: str) -> None:
        """Make a branch the current one and switch all clients to it."""
        self.current = branch
        self._cohort.switch_branch(branch, None)
