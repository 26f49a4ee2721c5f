"""Metrics and benchmarks of language models."""
