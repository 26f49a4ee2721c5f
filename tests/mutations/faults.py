"""The planted faults: small changes of the product, each of which the tests must catch."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one place of the product.

    Attributes:
        name: the fault in a few words.
        file: the changed file, relative to the root of the repository.
        old: text of the product, which occurs exactly once in the file.
        new: the text with the fault.
        tests: the test files that are expected to catch the fault.
    """

    name: str
    file: str
    old: str
    new: str
    tests: Sequence[str]

    def occurrences(self, root: Path = ROOT) -> int:
        """How often the old text occurs in the file."""
        return (root / self.file).read_text().count(self.old)

    def plant(self, root: Path) -> None:
        """Change the file in the copy of the product in ``root``.

        Raises:
            ValueError: the old text does not occur exactly once.
        """
        if (count := self.occurrences(root)) != 1:
            raise ValueError(
                f"fault {self.name!r}: the old text occurs {count} times in {self.file}, expected "
                f"once: change the entry in {TABLE.name}"
            )
        path = root / self.file
        path.write_text(path.read_text().replace(self.old, self.new))


def read_faults() -> list[Fault]:
    """All faults, in the order of the table."""
    return [Fault(**each) for each in tomllib.loads(TABLE.read_text())["fault"]]
