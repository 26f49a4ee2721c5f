"""Generate the pages of the configuration, the commands and the study, and parts of other pages.

The parts are the table of docs/errors.md, the diagrams of protocol/README.md, and the tables and
marks of figures on the pages (tests/bench/pages.py describes them). The page and the figure of the
forgetting study come from its record, so no study has to run.

``make docs`` runs it; tests/test_docs.py fails while a page differs from what it would write.
The meaning of a configuration key is the comment at the key's definition (configs/*.py, the methods
and the data sources), and the meaning of an option is its help text, so both are edited there and
not in the pages; an error class is described by the first line of its docstring. The diagrams show
the phase table.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.extend(str(folder) for folder in (ROOT, ROOT / "tests", ROOT / "docs"))

from bench.pages import BLOCK, rendered  # noqa: E402
from bench.pages import pages as pages_with_figures  # noqa: E402
from bench.records import Records  # noqa: E402
from generator.commands import command_page  # noqa: E402
from generator.configuration import configuration_page  # noqa: E402
from generator.errors import error_page  # noqa: E402
from generator.phases import protocol_page  # noqa: E402
from generator.python_interface import python_page  # noqa: E402

from parties.experiments.population.recorded import RecordedStudy  # noqa: E402
from parties.experiments.population.search import NAME as SEARCH  # noqa: E402
from parties.experiments.study_pages.figure import draw_study, study_points  # noqa: E402
from parties.experiments.study_pages.study_page import study_page  # noqa: E402

CONFIGURATION = ROOT / "docs" / "configuration.md"
COMMANDS = ROOT / "docs" / "cli.md"
ERRORS = ROOT / "docs" / "errors.md"
PYTHON = ROOT / "docs" / "python.md"
PROTOCOL = ROOT / "protocol" / "README.md"
STUDIES = {  # the record of each forgetting study that has one, with the study's file
    ROOT / "docs" / f"{name}.json": ROOT / "configs" / "bench" / f"{name}.toml"
    for name in ("forgetting", "exact-methods")
    if (ROOT / "docs" / f"{name}.json").exists()
}


def main() -> None:
    """Write the pages, and draw the figures of the studies."""
    for path, text in pages().items():
        path.write_text(text)
    for record in STUDIES:
        populations = RecordedStudy.read(record).populations.values()
        draw_study(study_points(populations), record.with_suffix(".png"))


def pages() -> dict[Path, str]:
    """Every page with the text that it should have."""
    generated = {
        CONFIGURATION: configuration_page(),
        COMMANDS: command_page(),
        ERRORS: error_page(ERRORS.read_text()),
        PROTOCOL: protocol_page(PROTOCOL.read_text()),
        PYTHON: python_page(),
        **study_pages(),
    }
    return generated | figure_pages(generated)


def study_pages() -> dict[Path, str]:
    """The page of every recorded study; its mark is not filled in yet."""
    return {
        record.with_name(f"{record.stem}-study.md"): study_page(
            study, RecordedStudy.read(record), record.with_name(SEARCH)
        )
        for record, study in STUDIES.items()
    }


def figure_pages(generated: Mapping[Path, str]) -> dict[Path, str]:
    """Every page that shows recorded figures, with its tables and marks filled in."""
    records = Records.read()
    paths = dict.fromkeys([*pages_with_figures(ROOT), *generated])
    texts = {path: generated.get(path) or path.read_text() for path in paths}
    return {path: rendered(text, records) for path, text in texts.items() if BLOCK.search(text)}


if __name__ == "__main__":
    main()
