"""Secure aggregation by pairwise masks: the server receives the sum of the clients' vectors only.

Bonawitz et al., CCS 2017, against a server that is curious and follows the protocol. Each object is
one side of one sum, without I/O, and its randomness is a parameter. Clients that are lost after
they sent their shares are missing in the sum, and nothing else changes, as long as ``threshold``
clients remain.
"""
