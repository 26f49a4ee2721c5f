"""Forgetting a client of a horizontal federation: arithmetic on models and pseudo-gradients.

A model is one vector ``[d]``, clients are rows, ``[clients, d]``. What crosses between server and
clients is in ``parties``; here is what either does with it.
"""
