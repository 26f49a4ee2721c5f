"""Requests after the run: the server and the clients carry them out with the kept model."""
