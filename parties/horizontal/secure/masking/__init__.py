"""Secure aggregation by pairwise masks: the server receives only the sum of clients' vectors.

The protocol is that of Bonawitz et al. (CCS 2017), secure against an honest-but-curious server.
Each object is one party's side of one sum; it does no I/O, and its randomness is passed as a
parameter. Clients that are lost after sending their shares are left out of the sum. The sum of the
other clients stays correct as long as at least ``threshold`` clients remain.
"""
