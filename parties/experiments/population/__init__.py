"""Populations: many small federations trained at once on one machine, for the strong audits.

This package reads the columns of all parties in one process, so it is never used in a run between
organisations. A test checks that this package and a run of the parties compute the same models.
"""
