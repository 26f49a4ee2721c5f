"""Horizontal mode: a server, and clients with the same columns about different people."""
