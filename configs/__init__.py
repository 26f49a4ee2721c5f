"""Configuration: the agreement of the parties, the party settings, and the shipped configs."""
