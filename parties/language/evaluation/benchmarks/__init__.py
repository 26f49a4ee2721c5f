"""Benchmarks that the server measures a language model with: their files are in its seat."""
