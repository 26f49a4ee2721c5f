"""Shared helpers: errors, randomness, atomic files, JSON, devices, progress and traffic."""
