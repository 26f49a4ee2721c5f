"""The parties of a run: modes, data, requests, reports, checks and command line."""
