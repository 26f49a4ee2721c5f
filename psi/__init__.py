"""Private set intersection: each party learns which of its own rows all parties have in common."""
