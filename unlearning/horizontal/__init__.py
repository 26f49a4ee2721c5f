"""Unlearning a client of a horizontal federation: arithmetic on models and pseudo-gradients.

A model is one vector ``[d]``, and clients are the rows of ``[clients, d]``. The package ``parties``
exchanges the messages between server and clients. This package contains the computations of the
server and of the clients.
"""
