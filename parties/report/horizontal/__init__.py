"""The report of a horizontal run: a page, and a table on the terminal."""

VERSION = 1  # of the metrics; grows when a reader of the old ones would go wrong
