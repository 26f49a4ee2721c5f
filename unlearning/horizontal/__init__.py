"""Unlearning a client of a horizontal federation: arithmetic on models and pseudo-gradients.

A model is one vector ``[d]``; the vectors of several clients form a matrix ``[clients, d]``. The
package ``parties`` exchanges the messages between server and clients. This package contains the
computations of the server and of the clients.
"""
