"""Read, check, preprocess and partition the data of one party, and write prediction files."""
