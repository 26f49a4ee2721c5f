"""Audits: whether a model forgot, what utility it kept, and what the unlearning itself leaks."""
