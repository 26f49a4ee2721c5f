"""Report of a horizontal run: a page, and a table for the terminal."""

VERSION = 2  # of the metrics' format; a reader refuses another version
