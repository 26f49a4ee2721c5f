"""Lines of models: to which of them what is the clients' own belongs."""

from parties.horizontal.engine.cohort import Cohort
from parties.horizontal.record import Record


class Lines:
    """Begins them.

    Attributes:
        present: that of the model which the run would deliver.
    """

    def __init__(self, cohort: Cohort, record: Record) -> None:
        self._cohort, self._record = cohort, record
        self.present = ""

    def begin(self, name: str, parent: str | None) -> str:
        """Go over to a line that begins now.

        Work that a crash undid is done again on another one: on the first, clients hold what they
        made of it.
        """
        line = f"{self._record.run.hex()} {name} {self._record.start.hex()[:8]}"
        self._cohort.follow(line, parent)
        return line

    def stay(self, line: str) -> None:
        """This is the present one from now on."""
        self.present = line
        self._cohort.follow(line, None)
