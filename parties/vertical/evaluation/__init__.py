"""Evaluation of a request: run all methods, read their models' outputs, compute metrics."""
