"""Vertical mode: split models over parties with different columns."""
