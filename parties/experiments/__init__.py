"""Experiments over many runs: benchmarks and populations of models."""
