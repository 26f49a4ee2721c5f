"""Writes the two pages of a run, beside its record."""

from pathlib import Path
from typing import Any

from parties.common.atomic_file import write_atomically
from parties.report import OFFICER, PARTIAL_OFFICER, PARTIAL_REPORT, REPORT
from parties.report.pages.officer import officer_page
from parties.report.pages.scientist import report_page


def write_pages(folder: Path, metrics: Any) -> tuple[Path, Path]:
    """Write two pages, linked to each other; return the scientist's and the officer's path.

    ``metrics`` is the record of the run as JSON values. The pages of a run that failed have names
    of their own, so that they replace no page of a finished run.

    Raises:
        DataError: ``metrics`` is no record of a run.
        StorageError: a page cannot be written.
    """
    scientist, officer = REPORT, OFFICER
    if metrics["failure"] is not None:
        scientist, officer = PARTIAL_REPORT, PARTIAL_OFFICER
    pages = {scientist: report_page(metrics, officer), officer: officer_page(metrics, scientist)}
    for name, text in pages.items():
        write_atomically(folder / name, text.encode())
    return folder / scientist, folder / officer
