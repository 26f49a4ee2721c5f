"""Figures: what the models of a request are measured by, one subject a file."""
