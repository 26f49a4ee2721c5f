"""Checks whether this machine is ready for a party's run."""
