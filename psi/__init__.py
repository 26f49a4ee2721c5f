"""Private set intersection: which rows all parties share, and nothing else; see psi/README.md."""
