"""Pairing of the parties of a federation by a short one-time code."""
