"""Secure aggregation by pairwise masks: the server receives only the sum of clients' vectors.

The protocol of Bonawitz et al. (CCS 2017) is secure against an honest-but-curious server. A
``MaskingClient`` or ``MaskingServer`` object is used by one party for one sum. These objects do no
I/O and receive random bytes as a parameter. If a client is lost after it has sent its key shares,
the sum does not contain this client's vector. The sum of the other clients' vectors is still
correct, as long as at least ``threshold`` clients remain.
"""
