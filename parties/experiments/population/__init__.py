"""Populations: many small federations trained at once on one machine, for the strong audits.

All columns lie in one place here, so this package is never part of a run between organisations.
It computes what the parties compute together; a test compares the two.
"""
