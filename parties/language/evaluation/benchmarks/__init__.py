"""Benchmarks of language models at the server, which names their files in its party settings."""
