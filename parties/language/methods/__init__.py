"""Unlearning methods for language models."""
