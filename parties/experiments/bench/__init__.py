"""Experiments as configs: run them all, then put what came out beside the paper's tables."""
