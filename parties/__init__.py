"""The parties of a run: modes, data, requests, reports, checks and command line."""

__version__ = "0.3.0"
