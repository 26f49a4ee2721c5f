"""Unlearning a client of a horizontal federation: arithmetic on models and pseudo-gradients.

A model is one vector ``[d]``, and clients are the rows of ``[clients, d]``. The messages between
server and clients are in ``parties``; this package contains the computations of server and clients.
"""
