"""Many small federations on one machine, trained together: the ground of the strong audits.

All columns lie in one place here, so nothing of this belongs into a run between organisations. It
computes what the parties compute with each other; a test holds it against them.
"""
