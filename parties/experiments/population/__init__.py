"""Populations: many small federations, trained together, for audits that compare many models.

This package reads the columns of all parties in one process, so it is never used in a run between
organisations. A test checks that this package and a run of the parties compute the same models.
"""
