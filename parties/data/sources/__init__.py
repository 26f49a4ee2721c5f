"""Data sources: one reader per file format or database, which returns checked records."""
