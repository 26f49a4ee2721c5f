"""Vertical mode: a split model over parties that have different columns of the same rows."""
