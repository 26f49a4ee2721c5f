"""Requests for deletion: journal, states, persons, and the driver of unlearning methods."""
