"""Populations: many small federations trained at once on one machine, for the strong audits.

This package holds the columns of all parties in one process, so it is never used in a run between
organisations. It computes the same models as the parties do together; a test compares both.
"""
