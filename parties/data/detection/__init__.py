"""Detection of a table's form: separators, encoding, and the use of each column."""
