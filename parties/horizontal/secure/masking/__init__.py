"""Secure aggregation: the server learns the sum of the clients' vectors and none of them.

Bonawitz et al., CCS 2017, against a server that is curious and follows the protocol; each object is
one side of one sum, without I/O, its randomness injected. Clients that drop out after they sent
their shares cost their contribution and nothing else, as long as ``threshold`` of them stay.
"""
