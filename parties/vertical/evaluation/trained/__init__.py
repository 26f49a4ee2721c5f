"""Evaluation of the trained model: its figures on test rows, and what the other parties add."""
