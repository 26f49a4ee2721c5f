"""Data of one party: reading, checking, preprocessing, partitioning, and predictions as files."""
