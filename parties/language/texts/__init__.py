"""Text data: readers of text files, partition among clients, tokenisation, batches."""
