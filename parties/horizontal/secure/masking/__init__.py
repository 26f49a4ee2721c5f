"""Secure aggregation by pairwise masks: the server receives only the sum of clients' vectors.

The protocol of Bonawitz et al. (CCS 2017) is secure against an honest-but-curious server. Each
object is one party's side of one sum. The object does no I/O and receives its random bytes as a
parameter. If a client is lost after it sent its shares, the sum does not contain this client's
vector. The sum of the other clients' vectors is still correct, as long as at least ``threshold``
clients remain.
"""
