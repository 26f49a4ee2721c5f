"""Benchmarks: run experiments from configs and compare the results with the papers' tables."""
