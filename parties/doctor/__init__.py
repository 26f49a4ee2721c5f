"""Checks before a run that a party can run on this machine."""
