"""Horizontal mode: a server, and clients that hold the same columns about different people."""
