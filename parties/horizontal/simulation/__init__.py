"""Clients that are computed on one machine or a cluster, beside the server's program."""
