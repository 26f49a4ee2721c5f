"""Audits: whether a model forgot, how much utility is left, and what unlearning itself leaks."""
