"""Evaluation of a request: run all methods, and compute metrics from their models' outputs."""
