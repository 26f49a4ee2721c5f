"""The method table of a request as a CSV file, inside a link of the page."""

import csv
import io
from base64 import b64encode

from parties.report.method_table import MethodTable

# A spreadsheet program runs a cell that begins with one of these characters as a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def methods_csv(table: MethodTable) -> str:
    """Return the table as CSV: one line per method, numbers in full precision.

    Fractions are not in per cent; times are in seconds. An absent number is an empty cell.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
    writer.writerow(map(plain_cell, ("method", "meaning", "guarantee", *table.full_titles)))
    for line in table.lines:
        words = map(plain_cell, (line.name, line.meaning, line.guarantee))
        numbers = ("" if cell.number is None else repr(cell.number) for cell in line.cells)
        writer.writerow([*words, *numbers])
    return text.getvalue()


def plain_cell(text: str) -> str:
    """Return a text that no spreadsheet program runs as a formula: an apostrophe comes first."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULAS) else text


def csv_link(content: str) -> str:
    """Return a ``data:`` link with the CSV text ``content``; it needs no network and no file."""
    marked = content.encode("utf-8-sig")  # the mark tells spreadsheet programs the encoding
    return f"data:text/csv;charset=utf-8;base64,{b64encode(marked).decode()}"
