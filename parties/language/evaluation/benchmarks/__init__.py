"""Benchmarks of language models; the server's party settings name the benchmark files."""
