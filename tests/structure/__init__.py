"""Measurements of the product's structure, read from its source text; nothing is imported."""
